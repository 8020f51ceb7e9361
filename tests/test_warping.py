"""Sampling parameters against transformers' own warpers, bit for bit in torch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from transformers.generation.logits_process import (
    LogitsProcessorList,
    MinPLogitsWarper,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from specverify.errors import InvalidInputError
from specverify.warping import SamplingParams, warp_logits, warp_probs

# Coarse grid: many ties, and cumulative sums that fall exactly on a threshold.
TIED_LOGITS = hnp.arrays(
    np.float64, st.integers(1, 12), elements=st.integers(-3, 3).map(lambda n: n * np.log(2))
)
FREE_LOGITS = hnp.arrays(np.float64, st.integers(1, 12), elements=st.floats(-20, 20))
PARAMS = st.builds(
    SamplingParams,
    temperature=st.sampled_from([1e-3, 0.5, 0.7, 1.0, 1.3, 5.0]),
    top_k=st.none() | st.integers(1, 15),
    top_p=st.none() | st.sampled_from([1e-9, 0.25, 0.5, 0.9, 1.0]) | st.floats(1e-6, 1),
    min_p=st.none() | st.sampled_from([0.0, 0.25, 0.5, 1.0]) | st.floats(0, 1),
)


def warped_by_transformers(logits: torch.Tensor, params: SamplingParams) -> torch.Tensor:
    """The law that ``generate`` samples, put together as its ``_get_logits_processor`` does."""
    warpers = LogitsProcessorList()
    if params.temperature != 1:
        warpers.append(TemperatureLogitsWarper(params.temperature))
    if params.top_k is not None:
        warpers.append(TopKLogitsWarper(params.top_k, min_tokens_to_keep=1))
    if params.top_p is not None and params.top_p < 1:
        warpers.append(TopPLogitsWarper(params.top_p, min_tokens_to_keep=1))
    if params.min_p is not None:
        warpers.append(MinPLogitsWarper(params.min_p, min_tokens_to_keep=1))
    return warpers(torch.zeros(len(logits), 1, dtype=torch.long), logits).softmax(-1)


@given(TIED_LOGITS | FREE_LOGITS, PARAMS, st.sampled_from([torch.float32, torch.float64]))
def test_equals_transformers_bit_for_bit(logits, params, dtype) -> None:
    rows = torch.tensor(logits[None], dtype=dtype)
    assert torch.equal(warp_logits(rows, params), warped_by_transformers(rows, params))


@given(FREE_LOGITS, PARAMS)
def test_numpy_equals_torch(logits, params) -> None:
    cooled = np.sort(warp_logits(logits, SamplingParams(params.temperature, params.top_k)))
    edge = 2.0 if params.top_p in (None, 1) else 1 - params.top_p
    assume(np.abs(cooled.cumsum() - edge).min() > 1e-12)  # there, a sum may round to either side
    mine, theirs = warp_logits(logits, params), warp_logits(torch.tensor(logits), params)
    assert isinstance(mine, np.ndarray)
    assert mine.dtype == logits.dtype
    np.testing.assert_allclose(mine, theirs, atol=1e-13)


@pytest.mark.parametrize(
    "params",
    [
        SamplingParams(0.7, 40, 0.9, 0.05),
        SamplingParams(1.3, None, 0.95, None),
        SamplingParams(0.9, 3, None, 0.2),
    ],
)
def test_large_vocabularies_agree(params) -> None:
    logits = np.random.default_rng(0).normal(size=(4, 50257)) * 3
    expected = warped_by_transformers(torch.tensor(logits), params)
    assert torch.equal(warp_logits(torch.tensor(logits), params), expected)
    np.testing.assert_allclose(warp_logits(logits, params), expected, atol=1e-12)


@given(TIED_LOGITS | FREE_LOGITS, PARAMS)
def test_the_result_is_a_law_that_keeps_the_mode_and_the_order(logits, params) -> None:
    warped = warp_logits(logits, params)
    assert warped.sum() == pytest.approx(1)
    assert warped[logits == logits.max()].max() > 0
    order = np.argsort(logits, kind="stable")
    assert np.all(np.diff(warped[order]) >= -1e-15)


@given(FREE_LOGITS, PARAMS, st.floats(-50, 50))
def test_probs_and_shifted_logits_give_the_same_law(logits, params, shift) -> None:
    if params.top_p is not None or params.min_p is not None or params.top_k is not None:
        params = SamplingParams(params.temperature)  # a filter's edge may round to either side
    expected = warp_logits(logits, params)
    np.testing.assert_allclose(warp_logits(logits + shift, params), expected, atol=1e-9)
    probs = warp_logits(logits, SamplingParams())
    np.testing.assert_allclose(warp_probs(probs, params), expected, atol=1e-9)


def test_edges_by_hand() -> None:
    probs = np.array([0.25, 0.25, 0.25, 0.25])
    third = np.array([0, 0, 0.5, 0.5])
    np.testing.assert_array_equal(warp_probs(probs, SamplingParams(top_p=0.5)), third)
    np.testing.assert_array_equal(warp_probs(probs, SamplingParams(top_p=1e-12)), [0, 0, 0, 1])
    np.testing.assert_array_equal(warp_probs(probs, SamplingParams(top_k=1)), probs)  # ties stay
    np.testing.assert_array_equal(warp_probs(probs, SamplingParams(top_k=99)), probs)
    np.testing.assert_array_equal(warp_probs(probs, SamplingParams(min_p=1.0)), probs)
    skewed = np.array([0.5, 0.25, 0.125, 0.125])
    np.testing.assert_allclose(warp_probs(skewed, SamplingParams(min_p=0.5)), [2 / 3, 1 / 3, 0, 0])
    # Top-p sees what top-k left over: of (2/3, 1/3) it needs one token only.
    np.testing.assert_allclose(warp_probs(skewed, SamplingParams(top_k=2, top_p=0.6)), [1, 0, 0, 0])


@pytest.mark.parametrize("kind", [np.asarray, torch.tensor])
def test_temperature_zero_takes_the_lowest_id_among_equals(kind) -> None:
    logits = kind([[0.0, 2.0, 2.0], [1.0, 1.0, 1.0]])
    greedy = warp_logits(logits, SamplingParams(temperature=0, top_k=2, top_p=0.1))
    np.testing.assert_array_equal(greedy, [[0, 1, 0], [1, 0, 0]])
    assert greedy.dtype == logits.dtype
    probs = kind([[0.2, 0.4, 0.4]])
    np.testing.assert_array_equal(warp_probs(probs, SamplingParams(0)), [[0, 1, 0]])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("temperature", [1e-6, 1e-40, 1e-300, 5e-324])
def test_tiny_temperatures_tend_to_greedy(temperature, dtype) -> None:
    logits = np.array([1.0, 3e30, 2.0, 3e30], dtype=dtype)
    warped = warp_logits(logits, SamplingParams(temperature))
    np.testing.assert_array_equal(warped, [0, 0.5, 0, 0.5])


def test_impossible_tokens_stay_impossible() -> None:
    warped = warp_probs(np.array([0.5, 0.0, 0.5]), SamplingParams(temperature=2.0, min_p=0.1))
    np.testing.assert_array_equal(warped, [0.5, 0, 0.5])


def test_plain_parameters_change_nothing() -> None:
    probs = np.array([0.1, 0.9])
    assert warp_probs(probs, SamplingParams(top_p=1.0, min_p=0.0)) is probs


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"temperature": -0.1}, r"temperature: must lie in \[0, inf\], got -0.1"),
        ({"temperature": float("nan")}, "temperature: .* got nan"),
        ({"temperature": float("inf")}, "temperature: must be finite, got inf"),
        ({"top_k": 0}, "top_k: must be at least 1, got 0"),
        ({"top_k": 1.5}, "top_k: must be an integer, got 1.5"),
        ({"top_p": 0.0}, "top_p: must be above 0, got 0.0"),
        ({"top_p": 1.1}, r"top_p: must lie in \[0, 1\], got 1.1"),
        ({"top_p": float("nan")}, "top_p: .* got nan"),
        ({"min_p": -0.1}, r"min_p: must lie in \[0, 1\], got -0.1"),
        ({"min_p": 1.1}, "min_p: .* got 1.1"),
    ],
)
def test_bad_parameters_are_named(arguments, message) -> None:
    with pytest.raises(InvalidInputError, match=message):
        SamplingParams(**arguments)


@pytest.mark.parametrize(
    ("logits", "message"),
    [
        ([], "empty vocabulary"),
        ([1, 2], "floating dtype"),
        ([0.0, float("nan")], "NaN"),
        ([0.0, float("inf")], "infinite"),
        ([float("-inf"), float("-inf")], "infinite"),
    ],
)
@pytest.mark.parametrize("kind", [np.asarray, torch.tensor])
def test_bad_logits_are_refused(logits, message, kind) -> None:
    with pytest.raises(InvalidInputError, match=message):
        warp_logits(kind(logits), SamplingParams())


@pytest.mark.parametrize(
    ("probs", "message"),
    [
        ([], "empty vocabulary"),
        ([0.5, float("nan")], "NaN"),
        ([0.5, 0.6], "off by 0.1"),
        ([1.5, -0.5], "negative entry, -0.5"),
    ],
)
@pytest.mark.parametrize("kind", [np.asarray, torch.tensor])
def test_bad_probs_are_refused(probs, message, kind) -> None:
    with pytest.raises(InvalidInputError, match=f"probs: .*{message}"):
        warp_probs(kind(probs), SamplingParams())


def test_an_empty_batch_stays_empty() -> None:
    params = SamplingParams(0.5, 2, 0.9, 0.1)
    assert warp_logits(np.zeros((0, 3)), params).shape == (0, 3)
    assert warp_probs(np.zeros((0, 3)), params).shape == (0, 3)


def test_another_order_would_be_seen() -> None:
    """The negative control: top-p before temperature keeps another set."""
    logits = torch.log(torch.tensor([[0.5, 0.25, 0.15, 0.1]], dtype=torch.float64))
    params = SamplingParams(temperature=2.0, top_p=0.74)
    filtered = TopPLogitsWarper(params.top_p)(None, logits)
    swapped = TemperatureLogitsWarper(params.temperature)(None, filtered).softmax(-1)
    expected = warped_by_transformers(logits, params)
    assert not torch.allclose(swapped, expected)
    assert torch.equal(warp_logits(logits, params), expected)
