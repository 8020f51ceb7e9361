"""Draws: exact intervals, rounding at both ends, tokens of weight zero, generators."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from specverify.errors import InvalidInputError
from specverify.sampler.draws import (
    categorical_from_uniforms,
    check_generator,
    pick_token,
    sample_categorical,
    uniforms,
)
from specverify.strategies import distributions
from specverify.strategies import uniforms as uniform_arrays

BELOW_ONE = float(np.nextafter(1, 0))


@pytest.mark.parametrize("array", [np.asarray, torch.tensor], ids=["numpy", "torch"])
def test_each_token_has_its_interval(array) -> None:
    weights = array([[0.25, 0.0, 0.5, 0.25]] * 5)
    tokens = categorical_from_uniforms(weights, array([0.0, 0.25, 0.5, 0.75, BELOW_ONE]))
    assert tokens.tolist() == [0, 2, 2, 3, 3]


@given(distributions((1, 9)), uniform_arrays((4,)), st.sampled_from([0.37, 1.0, 3.0, 1e-30]))
def test_never_a_token_of_weight_zero(probs, draws, scale) -> None:
    rows = np.tile(probs * scale, (4, 1))
    tokens = categorical_from_uniforms(rows, draws)
    assert (rows[np.arange(4), tokens] > 0).all()
    as_torch = categorical_from_uniforms(torch.from_numpy(rows), torch.from_numpy(draws))
    np.testing.assert_array_equal(as_torch, tokens)
    assert [pick_token(rows[0], u) for u in draws] == tokens.tolist()


def test_float32_sums_that_miss_one_are_scaled() -> None:
    # Float32 weights of one row of a large softmax end below 1; the last token must be reachable,
    # and the zeros behind it must not.
    weights = np.full((1, 3000), np.float32(1 / 2999), dtype=np.float32)
    weights[0, -1] = 0
    top = np.array([BELOW_ONE])
    assert categorical_from_uniforms(weights, top).tolist() == [2998]
    assert categorical_from_uniforms(weights * np.float32(0.9), top).tolist() == [2998]


def test_the_draws_on_a_grid_follow_the_law() -> None:
    probs = np.array([0.2, 0.0, 0.5, 0.3])
    grid = (np.arange(1000) + 0.5) / 1000
    tokens = categorical_from_uniforms(np.tile(probs, (1000, 1)), grid)
    np.testing.assert_array_equal(np.bincount(tokens, minlength=4), [200, 0, 500, 300])


def test_shapes_of_samples() -> None:
    probs = np.full((2, 3, 4), 0.25)
    for law, generator in [
        (probs, np.random.default_rng(0)),
        (torch.from_numpy(probs), torch.Generator().manual_seed(0)),
    ]:
        tokens = sample_categorical(law, generator)
        assert tuple(tokens.shape) == (2, 3)
        assert tuple(sample_categorical(law[0, 0], generator).shape) == ()
        assert tuple(sample_categorical(law[:0], generator).shape) == (0, 3)
        assert type(sample_categorical(law)) is type(law)


def test_tensors_are_sampled_by_multinomial() -> None:
    law = torch.tensor([0.1, 0.2, 0.7])
    ours = [int(sample_categorical(law, g)) for g in [torch.Generator().manual_seed(3)] * 8]
    generator = torch.Generator().manual_seed(3)
    theirs = [int(torch.multinomial(law, 1, generator=generator)) for _ in range(8)]
    assert ours == theirs


def test_uniforms_are_double_and_repeat_under_a_seed() -> None:
    like = torch.zeros(1)
    first = uniforms(like, (3, 2), torch.Generator().manual_seed(1))
    assert first.dtype == torch.float64
    assert torch.equal(first, uniforms(like, (3, 2), torch.Generator().manual_seed(1)))
    drawn = uniforms(np.zeros(1), (2,), np.random.default_rng(1))
    np.testing.assert_array_equal(drawn, np.random.default_rng(1).random(2))


def test_refuses_the_other_librarys_generator() -> None:
    with pytest.raises(InvalidInputError, match="generator: draws for numpy"):
        check_generator(torch.zeros(1), np.random.default_rng())
    with pytest.raises(InvalidInputError, match="generator: draws for torch"):
        check_generator(np.zeros(1), torch.Generator())
