"""Lengths: the law a round is right where one pooled law is not."""

from __future__ import annotations

import numpy as np
import pytest

from specverify.errors import InvalidInputError
from specverify.stats.goodness import pooled_chi_square
from specverify.stats.intervals import clopper_pearson
from specverify.stats.lengths import emitted_length_test


def geometric(alphas, gamma):
    alphas = np.asarray(alphas)[:, None]
    powers = alphas ** np.arange(gamma + 1)
    return powers * np.append(np.ones(gamma)[None] * (1 - alphas), np.ones_like(alphas), axis=1)


def draw(rng, pmfs):
    return (rng.random(len(pmfs))[:, None] > np.cumsum(pmfs, axis=1)[:, :-1]).sum(axis=1)


def test_one_law_is_pearsons_test() -> None:
    pmf = geometric([0.7], 3)[0]
    lengths = draw(np.random.default_rng(0), np.tile(pmf, (500, 1)))
    expected = pooled_chi_square(np.bincount(lengths, minlength=4), pmf)
    one, many = emitted_length_test(lengths, pmf), emitted_length_test(lengths, [pmf] * 500)
    assert one.statistic == pytest.approx(expected.statistic)
    assert many.statistic == pytest.approx(expected.statistic)
    assert (many.dof, many.p_value) == pytest.approx((expected.dof, expected.p_value))


def test_level_where_alpha_varies_and_the_pooled_law_cries_wolf() -> None:
    rng = np.random.default_rng(1)
    alarms = {"by round": 0, "pooled alpha": 0, "no bonus": 0}
    for _ in range(1000):
        pmfs = geometric(rng.beta(4, 1.5, size=2000), 4)
        lengths = draw(rng, pmfs)
        alarms["by round"] += emitted_length_test(lengths, pmfs).p_value <= 1e-2
        tested = np.minimum(lengths + 1, 4).sum()
        pooled = geometric([lengths.sum() / tested], 4)[0]
        alarms["pooled alpha"] += emitted_length_test(lengths, pooled).p_value <= 1e-2
        shorter = np.minimum(lengths, 3)
        alarms["no bonus"] += emitted_length_test(shorter, pmfs).p_value <= 1e-2
    low, high = clopper_pearson(alarms["by round"], 1000, confidence=1 - 1e-6)
    assert low <= 0.01 <= high
    assert alarms["pooled alpha"] > 900
    assert alarms["no bonus"] == 1000


def test_edges_and_impossible_lengths() -> None:
    sure = np.array([[0.0, 1.0], [0.0, 1.0]])
    assert emitted_length_test([1, 1], sure).p_value == 1.0
    broken = emitted_length_test([1, 0], sure)
    assert (broken.violations, broken.p_value, broken.n) == (1, 0.0, 2)
    assert emitted_length_test([0, 0], sure).violations == 2
    assert emitted_length_test(np.zeros(0, dtype=int), np.zeros((0, 2))).p_value == 1.0


def test_refusals() -> None:
    with pytest.raises(InvalidInputError, match=r"^lengths"):
        emitted_length_test([2], [0.5, 0.5])
    with pytest.raises(InvalidInputError, match=r"^pmfs"):
        emitted_length_test([0, 1, 1], [[0.5, 0.5]] * 2)
