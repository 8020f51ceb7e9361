"""Laws under filters in an engine's own order: exact, without the engines."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from specverify.adapters.filter_orders import OrderedLaw
from specverify.errors import InvalidInputError
from specverify.models.law import ModelLaw
from specverify.warping import SamplingParams

PROBS = np.array([0.4, 0.3, 0.2, 0.1])
TOKENS = np.zeros((2, 3), np.int64)


def model(ids: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(np.log(PROBS)).expand(*ids.shape, -1)


def law(order: tuple[str, ...], sampling: SamplingParams) -> np.ndarray:
    rows = OrderedLaw(model, order).probs([1], TOKENS, sampling)
    assert rows.shape == (2, 3, 4)
    return rows[1, 2]


def test_each_filter_sees_what_the_one_before_left() -> None:
    sampling = SamplingParams(temperature=0.5, top_p=0.85)
    cool = PROBS**2 / (PROBS**2).sum()  # 16, 9, 4, 1 of 30
    last = law(("top_p", "temperature"), sampling)  # keeps .4, .3, .2 and cools these
    np.testing.assert_allclose(last, [16 / 29, 9 / 29, 4 / 29, 0], atol=1e-12)
    first = law(("temperature", "top_p"), sampling)  # the first two of the cooled reach 25/30
    np.testing.assert_allclose(first, [16 / 29, 9 / 29, 4 / 29, 0], atol=1e-12)
    lower = SamplingParams(temperature=0.5, top_p=0.8)
    assert cool[:2].sum() > 0.8 > PROBS[:2].sum()
    cooled_first = law(("temperature", "top_p"), lower)
    np.testing.assert_allclose(cooled_first, [16 / 25, 9 / 25, 0, 0], atol=1e-12)
    cooled_last = law(("top_p", "temperature"), lower)
    np.testing.assert_allclose(cooled_last, [16 / 29, 9 / 29, 4 / 29, 0], atol=1e-12)


def test_this_librarys_order_is_one_of_them() -> None:
    sampling = SamplingParams(temperature=0.7, top_k=3, top_p=0.8, min_p=0.3)
    usual = ModelLaw(model).probs([1], TOKENS, sampling)[0, 0]
    same = law(("temperature", "top_k", "top_p", "min_p"), sampling)
    np.testing.assert_allclose(same, usual, atol=1e-12)
    other = law(("min_p", "top_p", "top_k", "temperature"), sampling)
    assert np.abs(other - usual).max() > 0.01


def test_an_empty_prompt_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="prompt"):
        OrderedLaw(model, ("temperature",)).probs([], TOKENS, SamplingParams())
