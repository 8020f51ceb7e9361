"""The evidence is valid at small levels and finds what it says it finds."""

from __future__ import annotations

import math

import numpy as np
import pytest

from specverify.audit.evidence import (
    Stratum,
    detectable_tv,
    entropy_p_value,
    entropy_threshold,
    fit_p_value,
    fit_statistic,
    point_mass_tv,
    relative_entropy,
    tolerant_detectable_tv,
    tolerant_p_value,
    weigh,
)

LAW = np.array([0.4, 0.3, 0.2, 0.05, 0.05])


def _counts(law: np.ndarray, n: int, runs: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).multinomial(n, law, size=runs)


def test_the_bound_is_a_p_value_where_a_chi_square_is_not() -> None:
    """20,000 nulls with cells of expectation 0.2: the bound holds, Pearson's tail does not."""
    law = np.array([0.996, 0.002, 0.002])
    alarms = {"bound": 0, "pearson": 0}
    for counts in _counts(law, 100, 20_000, 1):
        stratum = Stratum(counts, law)
        alarms["bound"] += entropy_p_value(relative_entropy([stratum]), 2) <= 1e-3
        alarms["pearson"] += float(((counts - 100 * law) ** 2 / (100 * law)).sum()) > 13.8155
    assert alarms["bound"] <= 20
    assert alarms["pearson"] > 100


@pytest.mark.parametrize("dof", [1, 7, 60])
@pytest.mark.parametrize("level", [1e-3, 1e-9])
def test_threshold_inverts_the_p_value(dof: int, level: float) -> None:
    assert entropy_p_value(entropy_threshold(level, dof), dof) == pytest.approx(level, rel=1e-6)
    assert entropy_p_value(dof * 0.99, dof) == 1.0
    assert entropy_p_value(5.0, 0) == 1.0
    impossible = Stratum(np.array([9, 1]), np.array([1.0, 0.0]))
    assert entropy_p_value(relative_entropy([impossible]), 1) == 0.0


def test_one_cell_bound_by_hand() -> None:
    """Two cells: exp(-t) (e t) for t nats."""
    assert entropy_p_value(20.0, 1) == pytest.approx(math.exp(-20) * math.e * 20)


def test_the_detectable_distance_is_detected_with_its_power() -> None:
    """In the least favourable direction of equal cells; binomial error of 400 runs is 1.5 %."""
    law, n, level = np.full(6, 1 / 6), 3000, 1e-8
    distance = detectable_tv(n, 5, level, power=0.9)
    moved = law + distance / 3 * np.array([1, 1, 1, -1, -1, -1])
    found = [weigh([Stratum(counts, law)]).p_value <= level for counts in _counts(moved, n, 400, 2)]
    assert 0.84 <= np.mean(found) <= 0.96


def test_the_interval_holds_the_distance() -> None:
    moved = np.array([0.45, 0.25, 0.2, 0.05, 0.05])
    inside = []
    for counts in _counts(moved, 4000, 300, 3):
        tv = weigh([Stratum(counts, LAW)]).tv
        assert tv.low is not None
        assert tv.high is not None
        inside.append(tv.low <= 0.05 <= tv.high)
    assert np.mean(inside) >= 0.93


def test_strata_add_up_and_empty_ones_count_for_nothing() -> None:
    counts = _counts(LAW, 500, 2, 4)
    both = weigh([Stratum(counts[0], LAW), Stratum(counts[1], LAW), Stratum(0 * counts[0], LAW)])
    assert (both.n, both.dof) == (1000, 8)
    assert weigh([]).p_value == 1.0
    assert weigh([]).tv.high is None


def test_one_outcome_alone_has_a_distance_too() -> None:
    clean = point_mass_tv(0, 100, confidence=0.95)
    assert (clean.estimate, clean.low) == (0, 0)
    assert clean.high == pytest.approx(1 - 0.05 ** (1 / 100))
    seen = point_mass_tv(22, 1000, confidence=0.95)
    assert 0.01 < seen.low < seen.estimate == 0.022 < seen.high < 0.04
    assert point_mass_tv(0, 0, confidence=0.95).high is None


def test_far_from_the_law_the_counts_own_distance_bounds_it() -> None:
    """Mass where the law has little makes the chi-square's bound useless: 1 for a distance of .1.

    The bound holds in at least 95 % of 400 runs.
    """
    told, emitted = np.array([0.6, 0.399, 0.001]), np.array([0.5, 0.399, 0.101])
    bounds = [
        weigh([Stratum(counts, told)], confidence=0.95).tv.high
        for counts in _counts(emitted, 2000, 400, 5)
    ]
    assert np.mean(np.array(bounds) >= 0.1) > 0.95
    assert max(bounds) < 0.2


TOLERANCE, CELLS = 0.05, 16


def _off(distance: float) -> np.ndarray:
    """A law at this total variation from the uniform one over 16 cells."""
    return np.repeat([1 + 2 * distance, 1 - 2 * distance], CELLS // 2) / CELLS


def _tolerant(counts: np.ndarray, **settings: int) -> float:
    return tolerant_p_value(Stratum(counts, np.full(CELLS, 1 / CELLS)), TOLERANCE, **settings)


def test_a_law_within_the_tolerance_is_no_evidence() -> None:
    """2,000 laws at the very edge of it: no more alarms at 0.01 than a right test may have."""
    n = 2_000
    alarms = sum(_tolerant(counts) <= 0.01 for counts in _counts(_off(TOLERANCE), n, 2_000, 3))
    assert alarms <= 20
    assert _tolerant(np.zeros(CELLS, dtype=np.int64)) == 1.0


def test_a_law_beyond_the_tolerance_is_found_where_it_is_said_to_be() -> None:
    n, level = 20_000, 1e-9
    found = tolerant_detectable_tv(n, CELLS, level, tolerance=TOLERANCE)
    assert TOLERANCE < found < 3 * TOLERANCE
    seen = [_tolerant(counts) <= level for counts in _counts(_off(found), n, 200, 4)]
    assert np.mean(seen) > 0.9
    assert tolerant_detectable_tv(0, CELLS, level, tolerance=TOLERANCE) == 1.0


def test_draws_that_take_part_in_two_observations_count_half() -> None:
    counts = _counts(_off(0.2), 5_000, 1, 5)[0]
    alone, shared = _tolerant(counts), _tolerant(counts, sharing=2)
    assert math.log(alone) < math.log(shared) / 2 < 0


def test_the_tolerant_p_value_by_hand() -> None:
    """Distance 0.45, forgiven 0.05; four cells of 100 counts lie 0.1 off on average (0.14 if each
    draw takes part in two).
    """
    stratum = Stratum(np.array([70, 10, 10, 10]), np.full(4, 0.25))
    alone, shared = (tolerant_p_value(stratum, 0.05, sharing=sharing) for sharing in (1, 2))
    assert alone == pytest.approx(2 * math.exp(-(0.3**2) * 100 / 2))
    assert shared == pytest.approx(2 * math.exp(-((0.4 - 0.5 * math.sqrt(0.08)) ** 2) * 100 / 4))


def test_the_interval_by_hand() -> None:
    """900 of 1,000 where half are due: 0.4 away. Counts lie 0.0158 off at the most on average; a
    sample's slack at 95 % is 0.0387. The upper bound is that of the chi-square, 640.
    """
    tv = weigh([Stratum(np.array([900, 100]), np.full(2, 0.5))], confidence=0.95).tv
    noise, slack = 0.5 * math.sqrt(1 / 1000), math.sqrt(math.log(20) / 2000)
    assert tv.low == pytest.approx(0.4 - noise - slack)
    assert tv.estimate == pytest.approx(0.4 - math.sqrt(2 / math.pi) * noise)
    assert tv.high == pytest.approx(0.5 * (math.sqrt(640) + 1.645) / math.sqrt(1000), abs=1e-4)


def test_the_counts_own_bound_by_hand() -> None:
    """0.099 from a law with a rare token: the chi-square bounds nothing, the counts' distance does,
    with what counts lie off their law and the slack of a sample.
    """
    tv = weigh([Stratum(np.array([900, 100]), np.array([0.999, 0.001]))], confidence=0.95).tv
    noise, slack = 0.5 * math.sqrt(1 / 1000), math.sqrt(math.log(20) / 2000)
    assert tv.high == pytest.approx(0.099 + noise + slack)


def test_the_bound_holds_where_the_chi_square_is_large() -> None:
    """Above 10,000 a normal law stands in: 95 % of 2,000 bounds hold, at most 2 % fewer or more."""
    law, n, distance = np.full(4, 0.25), 500_000, 0.1
    moved = law + distance / 2 * np.array([1, 1, -1, -1])
    seen = [weigh([Stratum(counts, law)]) for counts in _counts(moved, n, 2_000, 6)]
    assert min(evidence.chi_square for evidence in seen) > 1e4
    highs = np.array([evidence.tv.high for evidence in seen])
    assert 0.93 < np.mean(highs >= distance) < 0.97
    assert np.mean(highs) < 1.02 * distance


def test_a_fit_counts_half_a_count_more_in_every_gap() -> None:
    """Gaps of 3 become 3.5, in two cells of 10; without freedom there is no fit."""
    statistic, dof = fit_statistic([Stratum(np.array([13, 7]), np.full(2, 0.5))])
    assert (statistic, dof) == (pytest.approx(2 * 3.5**2 / 10), 1)
    assert fit_p_value(0.0, 0) == 1.0
    assert fit_p_value(statistic, dof) == pytest.approx(math.erf(math.sqrt(statistic / 2)))
