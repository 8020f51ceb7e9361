"""The chi-square test keeps its level, sees what it should, and has sane edges."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from specverify.errors import InvalidInputError
from specverify.stats.goodness import (
    identity_statistic,
    monte_carlo_p_value,
    pooled_chi_square,
)
from specverify.stats.intervals import clopper_pearson

LAW = np.array([0.4, 0.3, 0.2, 0.1])


def test_agrees_with_scipy() -> None:
    counts = np.array([430, 290, 180, 100])
    fit = pooled_chi_square(counts, LAW)
    reference = stats.chisquare(counts, 1000 * LAW)
    assert (fit.statistic, fit.p_value) == pytest.approx((reference.statistic, reference.pvalue))
    assert (fit.n, fit.cells, fit.dof, fit.violations) == (1000, 4, 3, 0)
    assert fit.tv_estimate == pytest.approx(0.03)
    np.testing.assert_allclose(fit.expected, 1000 * LAW)


@pytest.mark.parametrize(
    ("counts", "law"),
    [
        ([0, 0, 0, 0], LAW),
        ([3, 1, 0, 0], LAW),
        ([0, 50], [0.0, 1.0]),
        ([7], [1.0]),
        ([0, 0], [0.5, 0.5]),
    ],
)
def test_nothing_to_see_is_no_alarm(counts, law) -> None:
    fit = pooled_chi_square(np.array(counts), np.array(law))
    assert (fit.p_value, fit.statistic, fit.violations) == (1.0, 0.0, 0)


def test_an_impossible_token_is_reported_and_enters_no_cell() -> None:
    fit = pooled_chi_square(np.array([500, 499, 1]), np.array([0.5, 0.5, 0.0]))
    assert (fit.violations, fit.p_value, fit.cells) == (1, 0.0, 2)
    assert fit.statistic < 1


def test_two_tokens_and_all_mass_in_one() -> None:
    assert pooled_chi_square(np.array([100, 0]), np.array([0.5, 0.5])).p_value < 1e-20
    assert pooled_chi_square(np.array([52, 48]), np.array([0.5, 0.5])).p_value > 0.5


@pytest.mark.parametrize("size", [2, 128, 4096])
def test_level_is_kept_and_a_shifted_law_is_not(size) -> None:
    """Nulls at 1e-2: the exact 99.9999 % interval must hold the level; TV .1 must be seen."""
    rng = np.random.default_rng(size)
    law = rng.dirichlet(np.full(size, 0.3))
    wrong = law.copy()
    low, high = np.argsort(law)[: size // 2], np.argsort(law)[size // 2 :]
    wrong[high] *= 1 - 0.1 / law[high].sum()
    wrong[low] *= 1 + 0.1 / law[low].sum()
    alarms, runs = {"right": 0, "wrong": 0}, 2000 if size < 4096 else 500
    for name, truth in (("right", law), ("wrong", wrong)):
        for counts in rng.multinomial(3000, truth / truth.sum(), size=runs):
            alarms[name] += pooled_chi_square(counts, law).p_value <= 0.01
    low_bound, high_bound = clopper_pearson(alarms["right"], runs, confidence=1 - 1e-6)
    assert low_bound <= 0.013
    assert high_bound >= 0.007
    assert alarms["wrong"] > 0.9 * runs


def test_too_good_a_fit_is_seen() -> None:
    law = np.full(100, 0.01)
    assert pooled_chi_square(np.full(100, 100), law).too_good < 1e-12
    fair = np.random.default_rng(1).multinomial(10_000, law)
    assert pooled_chi_square(fair, law).too_good > 1e-6


def test_monte_carlo_p_value_is_uniform_enough_and_never_zero() -> None:
    rng = np.random.default_rng(2)
    law = rng.dirichlet(np.full(500, 0.2))
    p_values = [
        monte_carlo_p_value(rng.multinomial(100, law), law, rng, replicates=99) for _ in range(300)
    ]
    assert stats.kstest(p_values, "uniform").pvalue > 1e-6
    shifted = np.roll(law, 1)
    assert monte_carlo_p_value(rng.multinomial(100, shifted), law, rng, replicates=99) == 0.01
    assert monte_carlo_p_value(np.array([1, 1]), np.array([1.0, 0.0]), rng) == 0.0
    assert monte_carlo_p_value(np.array([0, 0]), np.array([0.5, 0.5]), rng) == 1.0


@pytest.mark.parametrize("exponent", [1.0, 2 / 3])
def test_identity_statistic_sees_a_tilt_that_no_token_repeats_enough_to_show(exponent) -> None:
    rng = np.random.default_rng(3)
    law = np.full(20_000, 1 / 20_000)
    tilted = law * np.where(np.arange(20_000) % 2, 1.8, 0.2)

    def p_value(truth):
        counts = rng.multinomial(4000, truth)
        return monte_carlo_p_value(
            counts,
            law,
            rng,
            replicates=199,
            statistic=lambda c, p: identity_statistic(c, p, exponent=exponent),
        )

    assert p_value(tilted) == pytest.approx(1 / 200)
    assert p_value(law) > 1 / 200


def test_refusals() -> None:
    with pytest.raises(InvalidInputError, match=r"^counts: needs shape \(4,\)"):
        pooled_chi_square(np.array([1, 2]), LAW)
    with pytest.raises(InvalidInputError, match=r"^counts: has a negative"):
        pooled_chi_square(np.array([1, 2, 3, -1]), LAW)
    with pytest.raises(InvalidInputError, match=r"^counts: has entries that are no whole"):
        pooled_chi_square(np.array([1, 2, 3, 0.5]), LAW)
    with pytest.raises(InvalidInputError, match=r"^cells"):
        pooled_chi_square(np.array([1, 2, 3, 4]), LAW, cells=np.array([0, 1]))
    with pytest.raises(InvalidInputError, match=r"^rng"):
        monte_carlo_p_value(np.array([1, 2, 3, 4]), LAW, 0)
