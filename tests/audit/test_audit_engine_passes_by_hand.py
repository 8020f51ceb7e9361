"""Passes of an engine on counts made for them: p-values, what is granted, and what explains them.

The level of an audit is 1e-6.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from scipy import stats

from specverify.audit.checks.transform import check_passes, engine_scheme_finding, pass_p_value
from specverify.audit.engines import MICRO, EngineScenario
from specverify.audit.explanations import EXPLANATIONS
from specverify.audit.tally import Tally
from specverify.audit.terms import Terms

TERMS = Terms(
    n=2000, tests=100, bets=50, false_alarm=1e-6, confidence=0.999, power=0.9, tv=1.0, seed=0
)
ENGINE = EngineScenario(name="plain", purpose="by hand", length=4)
STANDARD = EXPLANATIONS[0].code.replace("-", "_")


def counted(passes: int, **expected: float) -> Tally:
    """Passes for 10,000 tokens; expectations by explanation, 4,000 of the others; spread 30."""
    tally = Tally()
    tally.table("passes", (4,))[:3] = passes, 10_000, 7000 * MICRO
    table = tally.table("passes-expected", (len(EXPLANATIONS), 2))
    table[:] = 4000 * MICRO, 900 * MICRO
    for which, explanation in enumerate(EXPLANATIONS):
        table[which, 0] = expected.get(explanation.code.replace("-", "_"), 4000) * MICRO
    tally.table("gamma", (4,))[3] = 1
    return tally


@pytest.mark.parametrize("passes", [110, 90])
def test_passes_are_normal_beyond_what_is_granted(passes: int) -> None:
    assert pass_p_value(passes, 100.0, 25.0) == pytest.approx(2 * stats.norm.sf(9.5 / 5))
    assert pass_p_value(passes, 100.0, 25.0, slack=4.0) == pytest.approx(2 * stats.norm.sf(6 / 5))
    assert pass_p_value(passes, 100.0, 25.0, slack=11.0) == 1.0


@pytest.mark.parametrize(("passes", "verdict"), [(5150, "pass"), (5350, "fail")])
def test_passes_beyond_what_a_tolerance_grants_fail(passes: int, verdict: str) -> None:
    """Of 10,000 tokens 1 % may be off, which grants 100.5 passes; a standard deviation is 30."""
    tally = counted(passes, **{STANDARD: 5000})
    check = check_passes(ENGINE, tally, replace(TERMS, tolerance=0.01))
    assert check.verdict == verdict
    assert check.p_value == pytest.approx(2 * stats.norm.sf((passes - 5100.5) / 30), abs=0)


@pytest.mark.parametrize("tolerance", [0.0, 0.001])
def test_passes_are_explained_by_what_fits_them(tolerance: float) -> None:
    """Two settings of 5,300 passes: the smaller p-value counts twice; five sigmas are no fit."""
    terms = replace(TERMS, tolerance=tolerance)
    slack = 0.5 + 10_000 * tolerance
    other = EXPLANATIONS[2].code
    for off, code in ((60, other), (150, "unknown-scheme")):
        expected = {STANDARD: 5000, other.replace("-", "_"): 5300 - off - slack}
        fits = {STANDARD: 5000, other.replace("-", "_"): 5300}
        finding = engine_scheme_finding([counted(5300, **fits), counted(5300, **expected)], terms)
        assert finding is not None
        assert finding.code == code
        if code == other:
            assert finding.data["p_value"] == pytest.approx(4 * stats.norm.sf(2))
    right = counted(5000, **{STANDARD: 5000})
    assert engine_scheme_finding([right, Tally()], terms) is None


@pytest.mark.parametrize(("drafted", "verdict"), [(None, "skip"), (0, "fail"), (7, "pass")])
def test_where_no_pass_is_counted_there_must_be_drafts(drafted, verdict: str) -> None:
    tally = counted(0, **{STANDARD: 5000})
    if drafted is not None:
        tally.table("drafts", (5,))[:2] = 10, drafted
    assert check_passes(ENGINE, tally, TERMS).verdict == verdict
