"""Checks of engines on counts made for them: two samples, transforms and neighbours.

Draws are seeded; the level of an audit is 1e-6.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from specverify.audit.checks.fit import TOO_GOOD
from specverify.audit.checks.transform import check_pairs, check_transform
from specverify.audit.checks.two_samples import check_two_samples
from specverify.audit.engines import BINS, ORDERS, PAIR_BINS, EngineScenario
from specverify.audit.evidence import Evidence as Looked
from specverify.audit.evidence import Stratum, tolerant_p_value, weigh
from specverify.audit.tally import Tally
from specverify.audit.terms import SUSPICIOUS, Terms
from specverify.results import Verdict
from specverify.stats.context import Evidence

TERMS = Terms(
    n=2000, tests=100, bets=50, false_alarm=1e-6, confidence=0.999, power=0.9, tv=1.0, seed=0
)
NO_BET = Evidence(log_e=0.0, n=0, impossible=0, shares={})
ENGINE = EngineScenario(name="plain", purpose="by hand", length=4)


def arms(*first_and_second: tuple[list[int], list[int]]) -> Tally:
    """Two prompts alike; a pair of rows of counts for each position."""
    tally = Tally()
    pairs = np.array(first_and_second)  # positions, arms, cells
    tally.table("arms", (2, 2, len(pairs), pairs.shape[2]))[...] = pairs.transpose(1, 0, 2)[:, None]
    return tally


def test_two_samples_are_compared_by_the_usual_chi_square() -> None:
    """Cells expected fewer than five times in the smaller arm are put together."""
    first, second = [23, 67, 6, 4, 0], [90, 90, 10, 8, 2]
    same = [50, 40, 5, 5, 0]
    tally = arms((same, [100, 80, 10, 10, 0]), (first, second), (same, same), (same, same))
    check = check_two_samples(ENGINE, tally, TERMS, bet=NO_BET)
    merged = np.array([[23, 67, 6, 4], [90, 90, 10, 10]])
    usual = stats.chi2_contingency(merged, correction=False)
    assert check.statistic == pytest.approx(2 * usual.statistic)
    # Suspicious alone; the least of four positions is not.
    assert SUSPICIOUS / 4 < stats.chi2.sf(check.statistic, 2 * usual.dof) < SUSPICIOUS
    assert check.verdict is Verdict.PASS
    assert check.params["dof"] == 2 * 3
    # It is the farthest of the four, whose bounds hold together at the audit's confidence.
    spread = 4 * 133 * check.tv.high**2
    assert stats.ncx2.cdf(check.statistic, 6, spread) == pytest.approx(0.001 / 4, rel=1e-6)
    n = 2 * 100 * 200 / 300
    assert check.tv.estimate == pytest.approx(np.sqrt((check.statistic - 6) / n) / 2)
    lenient = check_two_samples(ENGINE, tally, replace(TERMS, tolerance=0.05), bet=NO_BET)
    assert lenient.tv.high == pytest.approx(check.tv.high + 0.05)
    twice = arms(*([([2 * c for c in first], [2 * c for c in second])] * 4))
    assert check_two_samples(ENGINE, twice, TERMS, bet=NO_BET).verdict is Verdict.INCONCLUSIVE
    narrow = replace(TERMS, tv=0.01)
    assert check_two_samples(ENGINE, tally, narrow, bet=NO_BET).verdict is Verdict.INCONCLUSIVE


def transforms(*, leaning_at: int | None = None, share: float = 0.0, n: int = 4000) -> Tally:
    """Uniform transforms, in one order of one position shifted to the first cell."""
    rng, tally = np.random.default_rng(3), Tally()
    table = tally.table("transform", (ENGINE.length, len(ORDERS), BINS))
    table[...] = rng.multinomial(n, np.full(BINS, 1 / BINS), size=table.shape[:2])
    if leaning_at is not None:
        law = np.full(BINS, (1 - share) / BINS)
        law[0] += share
        table[leaning_at, 1] = rng.multinomial(n, law)
    return tally


@pytest.mark.parametrize("log_e", [0.0, np.log(200)])
def test_an_engines_position_that_is_off_is_refuted_in_any_order(log_e: float) -> None:
    bet = Evidence(log_e, 0, 0, {})
    right = check_transform(ENGINE, transforms(), TERMS, bet=bet)
    assert right.verdict is (Verdict.PASS if log_e == 0 else Verdict.INCONCLUSIVE)
    wrong = check_transform(ENGINE, transforms(leaning_at=2, share=0.08), TERMS, bet=bet)
    assert wrong.verdict is Verdict.FAIL
    assert wrong.diagnosis is not None
    assert wrong.diagnosis.position == 2


def pooled_orders(tally: Tally) -> list[Looked]:
    """What each order's cells say over all positions."""
    cells, law = tally.arrays["transform"].sum(axis=0), np.full(BINS, 1 / BINS)
    return [weigh([Stratum(c, law)], confidence=TERMS.confidence) for c in cells]


def test_a_lean_at_every_position_of_an_engine_shows_in_all_of_them() -> None:
    """A standard deviation and a half in each cell: too little for 60 cells, enough for 15."""
    tally = transforms()
    tally.arrays["transform"][:, 1] += np.tile([22, -22], BINS // 2)
    apart = [Stratum(c, np.full(BINS, 1 / BINS)) for c in tally.arrays["transform"][:, 1]]
    orders = pooled_orders(tally)
    check = check_transform(ENGINE, tally, TERMS, bet=NO_BET)
    assert (check.verdict, check.p_value) == (Verdict.FAIL, orders[1].p_value)
    assert weigh(apart).p_value > 100 * TERMS.level
    # The widest bound of the orders is told, and widened by what is forgiven.
    highs = [order.tv.high for order in orders]
    assert check.tv.high == highs[1] == max(highs) > 1.1 * np.median(highs)
    lenient = check_transform(ENGINE, tally, replace(TERMS, tolerance=0.05), bet=NO_BET)
    assert lenient.tv.high == pytest.approx(highs[1] + 0.05)


def test_a_lean_at_one_position_of_an_engine_is_doubted() -> None:
    """Least of three orders: suspicious alone is not enough."""
    for share, verdict in ((0.0285, Verdict.PASS), (0.034, Verdict.INCONCLUSIVE)):
        tally = transforms(leaning_at=2, share=share)
        assert min(order.chi_square_p for order in pooled_orders(tally)) > SUSPICIOUS
        cells = [Stratum(c, np.full(BINS, 1 / BINS)) for c in tally.arrays["transform"][:, 1]]
        assert weigh(cells).chi_square_p < SUSPICIOUS
        assert check_transform(ENGINE, tally, TERMS, bet=NO_BET).verdict is verdict


def test_a_pass_of_an_engine_bounds_the_distance() -> None:
    tally = transforms()
    high = max(order.tv.high for order in pooled_orders(tally))
    for allowed, verdict in ((1.01 * high, Verdict.PASS), (0.99 * high, Verdict.INCONCLUSIVE)):
        terms = replace(TERMS, tv=allowed)
        assert check_transform(ENGINE, tally, terms, bet=NO_BET).verdict is verdict


def test_an_engines_tolerance_forgives_that_much_and_impossible_tokens() -> None:
    lenient = replace(TERMS, tolerance=0.05)
    for share, verdict in ((0.03, "pass"), (0.8, "fail")):
        tally = transforms(leaning_at=2, share=share)
        tally.table("impossible", (1,))[0] = 2
        assert check_transform(ENGINE, tally, lenient, bet=NO_BET).verdict == verdict
        assert check_transform(ENGINE, tally, TERMS, bet=NO_BET).p_value == 0.0
    pooled = [Stratum(c, np.full(BINS, 1 / BINS)) for c in tally.arrays["transform"].sum(axis=0)]
    check = check_transform(ENGINE, tally, lenient, bet=NO_BET)
    assert check.p_value == min(tolerant_p_value(stratum, 0.05) for stratum in pooled)


def test_an_engines_transforms_without_any_chance_do_not_pass() -> None:
    tally = transforms()
    tally.arrays["transform"][...] = 250
    found = check_transform(ENGINE, tally, TERMS, bet=NO_BET)
    assert (found.verdict, found.params.get(TOO_GOOD)) == (Verdict.INCONCLUSIVE, True)


def test_neighbours_of_an_engine_are_compared_given_the_earlier_one() -> None:
    """Earlier cells may be as they like; the later one is uniform. Of a pair both may be off."""
    earlier = np.array([4000, 2000, 1000, 500])
    tables = np.repeat(earlier[:, None] // PAIR_BINS, PAIR_BINS, axis=1)
    tally = Tally()
    pairs = tally.table("transform-pairs", (len(ORDERS), PAIR_BINS, PAIR_BINS))
    pairs[...] = tables
    assert check_pairs(ENGINE, tally, TERMS, bet=NO_BET).verdict is Verdict.PASS
    for log_e, verdict in ((np.log(200), Verdict.INCONCLUSIVE), (np.inf, Verdict.FAIL)):
        bet = Evidence(log_e, 0, 0, {})
        assert check_pairs(ENGINE, tally, TERMS, bet=bet).verdict is verdict
    lenient = replace(TERMS, tolerance=0.02)
    assert check_pairs(ENGINE, tally, lenient, bet=NO_BET).p_value == 1.0
    pairs[1, 0] = [2200, 600, 600, 600]
    check = check_pairs(ENGINE, tally, TERMS, bet=NO_BET)
    strata = [Stratum(row, np.full(PAIR_BINS, 1 / PAIR_BINS)) for row in pairs[1]]
    assert (check.verdict, check.p_value) == (Verdict.FAIL, weigh(strata).p_value)
    law = np.repeat(earlier / earlier.sum() / PAIR_BINS, PAIR_BINS)
    expected = tolerant_p_value(Stratum(pairs[1].reshape(-1), law), 0.04, sharing=2)
    assert check_pairs(ENGINE, tally, lenient, bet=NO_BET).p_value == pytest.approx(expected)
    assert expected < 1e-4
