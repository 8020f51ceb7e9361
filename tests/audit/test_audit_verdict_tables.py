"""Which verdict follows from which checks, and which exit code from it: whole tables by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from specverify.audit.checks.fit import TOO_GOOD, Fit, doubted
from specverify.audit.config import AuditConfig
from specverify.audit.exact_record import BIASED, LOSSLESS, OPEN, ExactRecord
from specverify.audit.judges import settled
from specverify.audit.tally import Tally
from specverify.audit.verdicts import (
    apply_declarations,
    exit_code,
    family_verdict,
    overall_verdict,
)
from specverify.results import CheckResult, Family, Interval, RunStatus, Verdict

PASS, FAIL, ERROR, OPEN_YET, SKIP, XFAIL, XPASS = (
    Verdict.PASS,
    Verdict.FAIL,
    Verdict.ERROR,
    Verdict.INCONCLUSIVE,
    Verdict.SKIP,
    Verdict.XFAIL,
    Verdict.XPASS,
)


def check(verdict: Verdict, *, family: Family = Family.LAW, **fields: Any) -> CheckResult:
    defaults: dict[str, Any] = {"name": "token[x]", "params": {"length": 2, "scenario": "x"}}
    return CheckResult(family=family, verdict=verdict, **defaults | fields)


@pytest.mark.parametrize(
    ("verdict", "code"),
    [(PASS, 0), (XFAIL, 0), (FAIL, 1), (ERROR, 1), (OPEN_YET, 3), (SKIP, 3), (XPASS, 4)],
)
def test_exit_codes(verdict: Verdict, code: int) -> None:
    done = SimpleNamespace(status=RunStatus.COMPLETE, verdict=verdict)
    assert exit_code(cast("Any", done)) == code
    done.status = RunStatus.INTERRUPTED
    assert exit_code(cast("Any", done)) == 130


@pytest.mark.parametrize(
    ("seen", "family", "overall"),
    [
        ((PASS, SKIP), PASS, PASS),
        ((PASS, OPEN_YET), OPEN_YET, OPEN_YET),
        ((OPEN_YET, FAIL), FAIL, FAIL),
        ((FAIL, ERROR), ERROR, ERROR),
        ((XPASS, OPEN_YET, PASS), XPASS, XPASS),
        ((XPASS, FAIL), FAIL, FAIL),
        ((XFAIL, PASS), PASS, PASS),
        ((XFAIL, SKIP), XFAIL, PASS),
        ((SKIP,), SKIP, OPEN_YET),
        ((), SKIP, OPEN_YET),
    ],
)
def test_the_gravest_verdict_is_that_of_all(seen, family: Verdict, overall: Verdict) -> None:
    checks = [check(verdict) for verdict in seen]
    assert family_verdict(checks, Family.LAW) is family
    assert family_verdict(checks, Family.CONTRACT) is SKIP
    assert overall_verdict(checks, AuditConfig()) is overall


@pytest.mark.parametrize(
    ("family", "verdict", "expect", "overall"),
    [
        (Family.EFFICIENCY, FAIL, "lossless", PASS),
        (Family.EFFICIENCY, FAIL, "standard", FAIL),
        (Family.EFFICIENCY, ERROR, "lossless", ERROR),
        (Family.EFFICIENCY, XPASS, "lossless", XPASS),
        (Family.CONTRACT, FAIL, "standard", PASS),
        (Family.CONTRACT, ERROR, "standard", ERROR),
    ],
)
def test_what_counts_beside_the_law(family, verdict, expect: str, overall: Verdict) -> None:
    checks = [check(PASS), check(verdict, family=family)]
    assert overall_verdict(checks, AuditConfig(expect=expect)) is overall


@pytest.mark.parametrize(
    ("verdict", "low", "high", "judged"),
    [
        (FAIL, 0.0, 0.03, PASS),
        (FAIL, 0.0, 0.0301, OPEN_YET),
        (PASS, 0.0, None, OPEN_YET),
        (PASS, 0.0301, 0.05, FAIL),
        (FAIL, 0.03, 0.03, PASS),
        (SKIP, 0.0, 1.0, SKIP),
    ],
)
def test_a_declared_distance_is_the_measure(verdict, low, high, judged: Verdict) -> None:
    config = AuditConfig(declare="lossy:0.03")
    seen = check(verdict, n=100, tv=Interval(estimate=0.01, low=low, high=high))
    assert apply_declarations([seen], config)[0].verdict is judged
    for left_alone in (
        check(verdict, tv=None),
        check(verdict, tv=seen.tv, family=Family.EFFICIENCY),
        check(verdict, tv=seen.tv, params={"length": 2, "scenario": "x", TOO_GOOD: True}),
    ):
        assert apply_declarations([left_alone], config)[0].verdict is verdict


@pytest.mark.parametrize(
    ("verdict", "judged"),
    [(FAIL, XFAIL), (ERROR, XFAIL), (PASS, XPASS), (OPEN_YET, OPEN_YET), (SKIP, SKIP)],
)
def test_failures_that_are_expected(verdict: Verdict, judged: Verdict) -> None:
    config = AuditConfig(expected_failures={"token": "known"})
    other = check(verdict, name="joint[x]")
    found = apply_declarations([check(verdict), other], config)
    assert [one.verdict for one in found] == [judged, verdict]


def fitted(verdict: Verdict, scenario: str, statistic: float, **fields: Any) -> CheckResult:
    fit = {"scenario": scenario, "length": 2, "fit_statistic": statistic, "fit_dof": 20}
    return check(verdict, params=fit, **fields)


@pytest.mark.parametrize("verdict", list(Verdict))
def test_a_fit_too_good_withdraws_a_pass_alone(verdict: Verdict) -> None:
    lucky, honest = (Fit(statistic=1.0, dof=20, too_good=good) for good in (True, False))
    assert lucky.judged(verdict) is (OPEN_YET if verdict is PASS else verdict)
    assert honest.judged(verdict) is verdict


def test_what_all_together_fit_too_well_is_withdrawn_from_what_passed() -> None:
    """A chi-square of 4 on 20 degrees has p = 5e-5, two of them 1e-8 and four 7e-16."""
    one = [fitted(PASS, "a", 4.0)]
    assert doubted(one, 1e-6) == one
    # Tokens and completions of one scenario are the same draws: they count once.
    twice = [fitted(PASS, "a", 4.0, name=name) for name in ("token[a]", "joint[a]")]
    assert doubted(twice, 1e-6) == twice
    speed = check(PASS, family=Family.EFFICIENCY)
    seen = [fitted(PASS, name, 4.0) for name in "abc"] + [fitted(FAIL, "d", 4.0), speed]
    found = doubted(seen, 1e-6)
    assert [c.verdict for c in found] == [OPEN_YET, OPEN_YET, OPEN_YET, FAIL, PASS]
    assert [bool(c.params.get(TOO_GOOD)) for c in found] == [True, True, True, False, False]
    honest = [fitted(PASS, name, 20.0) for name in "abcd"]
    assert doubted(honest, 1e-6) == honest


@pytest.mark.parametrize(
    ("outcome", "whole", "decided"),
    [
        (BIASED, True, True),
        (BIASED, False, True),
        (LOSSLESS, True, True),
        (LOSSLESS, False, False),  # of the first tokens alone
        (OPEN, True, False),
    ],
)
def test_samples_are_spared_where_tracing_decided_the_whole(outcome, whole, decided) -> None:
    tally = Tally()
    assert not settled(tally)
    tally.note("exact", msgspec.to_builtins(ExactRecord(outcome=outcome, whole=whole)))
    assert settled(tally) is decided
