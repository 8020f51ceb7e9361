"""Verdicts of the law's checks by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from specverify.audit.terms import Terms
from specverify.results import Interval, Verdict

TERMS = Terms(
    n=1000, tests=100, bets=50, false_alarm=1e-6, confidence=0.99, power=0.9, tv=0.02, seed=0
)


@pytest.mark.parametrize(
    ("p_value", "chi_square_p", "high", "verdict"),
    [
        (1e-9, 1e-20, 0.01, Verdict.FAIL),
        (1e-7, 1e-12, 0.01, Verdict.INCONCLUSIVE),  # suspicious: sampling goes on
        (1.0, 0.5, 0.03, Verdict.INCONCLUSIVE),  # not bounded yet
        (1.0, 0.5, None, Verdict.INCONCLUSIVE),
        (1.0, 0.5, 0.02, Verdict.PASS),
    ],
)
def test_verdicts(p_value, chi_square_p, high, verdict) -> None:
    assert TERMS.verdict(p_value, chi_square_p, Interval(high=high)) is verdict


def test_levels_are_shared() -> None:
    """Half to the looks, half to the bets."""
    assert TERMS.level == pytest.approx(0.5e-8)
    assert TERMS.adjusted(1e-7) == pytest.approx(2e-5)
    assert TERMS.adjusted(0.5) == 1.0
    assert math.exp(TERMS.log_e_threshold) == pytest.approx(1e8)


FORGIVING = replace(TERMS, tolerance=0.005)


def test_a_p_value_that_allows_for_the_tolerance_fails_by_itself() -> None:
    """One that does not counts for nothing, however small: the law itself may be off."""
    bounded = Interval(high=0.01)
    assert FORGIVING.adjusted(1e-20, tolerant=True) == pytest.approx(2e-18, rel=1e-9, abs=0)
    assert FORGIVING.adjusted(1e-20) == 1.0
    assert FORGIVING.verdict(1e-20, 0.5, bounded, tolerant=True) is Verdict.FAIL
    assert FORGIVING.verdict(1e-20, 0.5, bounded) is Verdict.PASS


def test_no_distance_is_above_one() -> None:
    widened = FORGIVING.widened(Interval(low=0.99, high=0.999))
    assert (widened.low, widened.high) == (pytest.approx(0.985), 1.0)
    assert FORGIVING.widened(Interval()) == Interval()
