"""Two samples: exact level by permutation, power where arms differ, valid swap betting."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from specverify.errors import InvalidInputError
from specverify.stats.intervals import clopper_pearson
from specverify.stats.two_sample import match_test, permutation_chi_square, swap_log_e

LAW = np.random.default_rng(0).dirichlet(np.full(40, 0.5))
OTHER = 0.75 * LAW + 0.25 * np.roll(LAW, 1)


def chi_square(first, second, rng):
    tables = (np.bincount(arm, minlength=40) for arm in (first, second))
    return permutation_chi_square(*tables, rng, replicates=99)


@pytest.mark.parametrize(
    "test", [chi_square, lambda a, b, rng: match_test(a, b, rng, replicates=99)]
)
def test_level_and_power(test) -> None:
    rng = np.random.default_rng(1)
    alarms = {"same": 0, "other": 0}
    for name, law in (("same", LAW), ("other", OTHER)):
        for _ in range(200):
            first, second = rng.choice(40, size=300, p=LAW), rng.choice(40, size=500, p=law)
            alarms[name] += test(first, second, rng).p_value <= 0.05
    low, high = clopper_pearson(alarms["same"], 200, confidence=1 - 1e-6)
    assert low <= 0.05 <= high
    assert alarms["other"] > 50


def test_statistics_by_hand() -> None:
    """Chi-square of a table; mean kernel within each arm less twice that between them."""
    rng, table = np.random.default_rng(0), np.array([[20, 30, 10], [40, 30, 30]])
    usual = stats.chi2_contingency(table, correction=False).statistic
    assert permutation_chi_square(*table, rng, replicates=9).statistic == pytest.approx(usual)
    single = match_test([0, 0, 1], [1, 1, 1, 1], rng, replicates=9)
    assert single.statistic == pytest.approx(1 / 3 + 1 - 2 * 4 / 12)
    pairs = match_test([[0, 1], [0, 1]], [[0, 0], [1, 1]], rng, replicates=9)
    assert pairs.statistic == pytest.approx(2 + 0 - 2 * 2 / 4)


def test_sequences_that_agree_in_every_position_but_not_jointly() -> None:
    rng = np.random.default_rng(2)
    first = rng.integers(0, 4, size=(300, 3))
    tied = np.repeat(rng.integers(0, 4, size=(300, 1)), 3, axis=1)
    assert match_test(first, tied, rng).p_value == 0.001
    assert match_test(first, rng.integers(0, 4, size=(300, 3)), rng).p_value > 0.001


def test_swap_bets_have_mean_one_under_exchangeable_pairs() -> None:
    law = np.array([0.6, 0.4])
    total = 0.0
    for tokens in itertools.product(range(2), repeat=10):
        first, second = np.array(tokens[:5]), np.array(tokens[5:])
        total += float(np.prod(law[list(tokens)])) * math.exp(swap_log_e(first, second)[-1])
    assert total == pytest.approx(1.0, abs=1e-12)


def test_swap_bets_learn_within_a_stream() -> None:
    """Mean one is trivial without a bet: after the first batch there must be some."""
    rng = np.random.default_rng(3)
    alarms = {"same": 0, "other": 0}
    for name, law in (("same", LAW), ("other", OTHER)):
        for _ in range(200):
            path = swap_log_e(rng.choice(40, size=1500, p=LAW), rng.choice(40, size=1500, p=law))
            alarms[name] += float(path.max()) >= math.log(20)
    assert clopper_pearson(alarms["same"], 200, confidence=1 - 1e-6)[0] <= 0.05
    assert alarms["other"] > 150


def test_edges_and_refusals() -> None:
    rng = np.random.default_rng(4)
    assert permutation_chi_square(np.array([0, 0]), np.array([1, 2]), rng).p_value == 1.0
    assert match_test([1], [1, 2], rng).p_value == 1.0
    assert len(swap_log_e([], [1])) == 0
    with pytest.raises(InvalidInputError, match=r"^second_counts"):
        permutation_chi_square(np.array([1, 2]), np.array([1, 2, 3]), rng)
    with pytest.raises(InvalidInputError, match=r"^second"):
        match_test(np.zeros((2, 3)), np.zeros((2, 4)), rng)
    with pytest.raises(InvalidInputError, match=r"^rng"):
        match_test([1, 2], [1, 2], 0)
    with pytest.raises(InvalidInputError, match=r"^first"):
        swap_log_e(np.zeros((2, 2)), [1])
