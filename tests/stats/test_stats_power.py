"""Distances and sample sizes: the measured marks, simulated power, and coverage."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from specverify.errors import InvalidInputError
from specverify.stats.goodness import pooled_chi_square
from specverify.stats.intervals import clopper_pearson
from specverify.stats.power import (
    detectable_tv,
    multinomial_radius,
    noncentrality,
    sample_size,
    tv_interval,
    tv_upper_bound,
)


def least_favourable(law, tv):
    """All of the deviation along the direction that Pearson's statistic sees worst."""
    signs = np.where(np.arange(len(law)) % 2, 1.0, -1.0)
    return law + law * signs * tv * 2


@pytest.mark.parametrize(("cells", "expected"), [(2, 24.4), (16, 44.7), (128, 94.9)])
def test_noncentrality_at_the_known_marks(cells, expected) -> None:
    assert noncentrality(cells, 1e-3, 0.95) == pytest.approx(expected, abs=0.05)


def test_sample_size_and_distance_are_inverse() -> None:
    n = sample_size(0.02, 16, 1e-3, 0.95)
    assert detectable_tv(n, 16, 1e-3, 0.95) <= 0.02 < detectable_tv(n - 1, 16, 1e-3, 0.95)


def test_nothing_is_guaranteed_without_observations_or_cells() -> None:
    assert detectable_tv(0, 16, 1e-3, 0.95) == 1.0
    assert detectable_tv(1000, 1, 1e-3, 0.95) == 1.0
    assert tv_upper_bound(0.0, 0, 100) == 1.0
    assert tv_upper_bound(0.0, 5, 0) == 1.0
    assert multinomial_radius(0, 4) == 1.0


@pytest.mark.parametrize("cells", [2, 16, 128])
def test_simulated_power_is_the_stated_one(cells) -> None:
    """20,000 audits at the detectable distance; tolerance two points (issue's own)."""
    rng = np.random.default_rng(cells)
    law, n = np.full(cells, 1 / cells), 20_000
    wrong = least_favourable(law, detectable_tv(n, cells, 1e-3, 0.95))
    counts = rng.multinomial(n, wrong, size=20_000)
    statistic = ((counts - n * law) ** 2 / (n * law)).sum(axis=1)

    power = float(np.mean(statistic >= stats.chi2.isf(1e-3, cells - 1)))
    assert power == pytest.approx(0.95, abs=0.02)


@pytest.mark.parametrize("tv", [0.01, 0.03])
@pytest.mark.parametrize("cells", [2, 16, 128])
def test_upper_bound_covers(cells, tv) -> None:
    rng = np.random.default_rng(7)
    law, n = np.full(cells, 1 / cells), 10_000
    wrong = least_favourable(law, tv)
    counts = rng.multinomial(n, wrong, size=300)
    statistic = ((counts - n * law) ** 2 / (n * law)).sum(axis=1)
    covered = sum(tv_upper_bound(float(s), cells - 1, n) >= tv for s in statistic)
    low, _ = clopper_pearson(300 - covered, 300, confidence=1 - 1e-6)
    assert low <= 0.06


def test_a_suspiciously_good_fit_bounds_no_tighter_than_an_ordinary_one() -> None:
    assert tv_upper_bound(0.0, 15, 1000) == tv_upper_bound(15.0, 15, 1000) > 0


def test_interval_holds_the_truth_and_ends_at_one() -> None:
    rng = np.random.default_rng(9)
    law = rng.dirichlet(np.ones(32))
    other = rng.dirichlet(np.ones(32))
    truth = 0.5 * np.abs(other - law).sum()
    fit = pooled_chi_square(rng.multinomial(20_000, other), law)
    estimate, low, high = tv_interval(fit)
    assert 0 < low < truth < high <= 1
    assert estimate == pytest.approx(truth, abs=0.02)
    assert tv_interval(pooled_chi_square(np.zeros(32), law)) == (0.0, 0.0, 1.0)


def test_impossible_tokens_count_into_the_interval() -> None:
    fit = pooled_chi_square(np.array([450, 450, 100]), np.array([0.5, 0.5, 0.0]))
    estimate, low, high = tv_interval(fit)
    assert estimate == pytest.approx(0.1)
    assert low > 0.02
    assert 0.1 < high < 0.2
    everything = pooled_chi_square(np.array([0, 100]), np.array([1.0, 0.0]))
    assert tv_interval(everything)[2] == 1.0


def test_radius_is_never_exceeded_more_often_than_promised() -> None:
    rng = np.random.default_rng(10)
    law = rng.dirichlet(np.ones(40))
    counts = rng.multinomial(500, law, size=4000)
    distance = 0.5 * np.abs(counts / 500 - law).sum(axis=1)
    assert np.mean(distance > multinomial_radius(500, 40)) <= 0.05


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda: noncentrality(1, 1e-3, 0.9), "num_cells"),
        (lambda: noncentrality(4, 0.0, 0.9), "level"),
        (lambda: noncentrality(4, 0.5, 0.4), "power"),
        (lambda: sample_size(0.0, 4, 1e-3, 0.9), "tv"),
        (lambda: detectable_tv(-1, 4, 1e-3, 0.9), "n"),
        (lambda: tv_upper_bound(float("inf"), 4, 10), "statistic"),
        (lambda: tv_upper_bound(1.0, 4, 10, 1.0), "confidence"),
    ],
)
def test_refusals(call, argument) -> None:
    with pytest.raises(InvalidInputError, match=rf"^{argument}:"):
        call()
