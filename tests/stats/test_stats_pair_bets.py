"""Pairs: mean one, shared randomness found that marginals miss, independence left alone."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from specverify.errors import InvalidInputError
from specverify.stats.context import ContextBets
from specverify.stats.intervals import clopper_pearson
from specverify.stats.pair_bets import pair_log_e, pair_table, repeat_log_e

LAW = np.array([0.4, 0.3, 0.2, 0.1])


def draw(u, law=LAW):
    return np.minimum(np.searchsorted(np.cumsum(law), u, side="right"), len(law) - 1)


@pytest.mark.parametrize("lag", [1, 2])
def test_mean_is_one_over_overlapping_pairs(lag) -> None:
    law = np.array([0.5, 0.3, 0.2])
    pairs = repeats = 0.0
    for tokens in itertools.product(range(3), repeat=5):
        x = np.array(tokens)
        probability = float(np.prod(law[x]))
        pairs += probability * math.exp(pair_log_e(pair_table(x, lag, 3), law))
        repeats += probability * math.exp(repeat_log_e(x[lag:], x[:-lag], law))
    assert pairs == pytest.approx(1.0, abs=1e-12)
    assert repeats == pytest.approx(1.0, abs=1e-12)


def test_one_uniform_for_two_tokens() -> None:
    """300 pairs: the joint bet proves it, the marginal evidence does not; fresh uniforms pass."""
    rng = np.random.default_rng(0)
    uniforms = rng.random(300)
    tokens = np.repeat(draw(uniforms), 2)
    assert pair_log_e(pair_table(tokens, 1, 4), LAW) > math.log(1e6)
    assert repeat_log_e(tokens[1::2], tokens[::2], LAW) > math.log(1e6)
    counts = np.bincount(tokens, minlength=4)
    assert ContextBets(LAW).evidence(counts).log_e < math.log(1e6)
    fresh = draw(rng.random(600))
    assert pair_log_e(pair_table(fresh, 1, 4), LAW) < math.log(1e3)
    assert repeat_log_e(fresh[1:], fresh[:-1], LAW) < math.log(1e3)


def test_a_gumbel_vector_used_again_under_another_law() -> None:
    rng = np.random.default_rng(1)
    laws = rng.dirichlet(np.full(30, 0.5), size=(2, 400))
    gumbel = rng.gumbel(size=(2, 400, 30))
    first = np.argmax(np.log(laws[0]) + gumbel[0], axis=1)
    reused = np.argmax(np.log(laws[1]) + gumbel[0], axis=1)
    fresh = np.argmax(np.log(laws[1]) + gumbel[1], axis=1)
    assert repeat_log_e(reused, first, laws[1]) > math.log(1e6)
    assert repeat_log_e(fresh, first, laws[1]) < math.log(1e3)


def test_level() -> None:
    rng = np.random.default_rng(2)
    tokens = draw(rng.random((2000, 100)))
    alarms = sum(pair_log_e(pair_table(row, 1, 4), LAW) >= math.log(20) for row in tokens)
    assert clopper_pearson(alarms, 2000, confidence=1 - 1e-6)[0] <= 0.05


def test_impossible_cells_and_refusals() -> None:
    assert pair_log_e(np.array([[1, 1]]), [1.0, 0.0]) == math.inf
    with pytest.raises(InvalidInputError, match=r"^lag"):
        pair_table(np.array([1, 2]), 0, 3)
    with pytest.raises(InvalidInputError, match=r"^table"):
        pair_log_e(np.zeros((2, 3)), [0.5, 0.5])
    with pytest.raises(InvalidInputError, match=r"^earlier_tokens"):
        repeat_log_e([1, 0], [1], [0.5, 0.5])
