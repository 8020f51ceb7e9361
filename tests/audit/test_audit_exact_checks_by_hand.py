"""What becomes of a traced law's record: which checks there are, and their verdicts, by hand."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from specverify.audit.checks.efficiency import check_length
from specverify.audit.checks.exact import check_exact, sharpened
from specverify.audit.config import AuditConfig
from specverify.audit.counting import count_blocks, count_completions
from specverify.audit.exact_record import (
    BIASED,
    DISCARDED,
    LARGE,
    LOSSLESS,
    OPEN,
    REFUSED,
    ExactRecord,
)
from specverify.audit.forms import Form
from specverify.audit.judges import judge
from specverify.audit.planning import make_plan
from specverify.audit.scenarios import find
from specverify.audit.tally import Tally
from specverify.results import CheckResult, Verdict

SCENARIO = find(Form.VERIFY, "smallest")
TERMS = make_plan([SCENARIO], AuditConfig(), 0).terms("smallest", 0)


def traced(outcome: str | None, **fields: Any) -> Tally:
    tally = Tally()
    if outcome is not None:
        record = ExactRecord(outcome=outcome, **{"paths": 9, "low": 0.1, "high": 0.2} | fields)
        tally.note("exact", msgspec.to_builtins(record))
    return tally


@pytest.mark.parametrize(
    ("outcome", "alone", "beside"),
    [
        (BIASED, "fail", "fail"),
        (LOSSLESS, "pass", "pass"),
        (OPEN, "inconclusive", "skip"),
        (REFUSED, "inconclusive", "skip"),
        (DISCARDED, "inconclusive", "skip"),
        (LARGE, "skip", "skip"),  # nobody expects it to be enumerated
        (None, "inconclusive", "skip"),  # not reached
    ],
)
def test_what_is_not_proved_is_open_where_nothing_else_judges(outcome, alone, beside) -> None:
    tally = traced(outcome)
    assert check_exact(SCENARIO, tally, TERMS, only=True).verdict == alone
    assert check_exact(SCENARIO, tally, TERMS, only=False).verdict == beside


@pytest.mark.parametrize(
    ("outcome", "interval"),
    [
        (BIASED, (0.1, 0.1, 0.2)),
        (LOSSLESS, (0.1, 0.1, 0.2)),
        (OPEN, (None, 0.1, 0.2)),
        (LARGE, (None, 0.1, 0.2)),
        (REFUSED, None),
        (DISCARDED, None),
    ],
)
def test_bounds_are_told_of_laws_that_are_believed(outcome, interval) -> None:
    tv = check_exact(SCENARIO, traced(outcome), TERMS, only=False).tv
    assert (tv and (tv.estimate, tv.low, tv.high)) == interval
    assert check_exact(SCENARIO, traced(outcome, paths=0), TERMS, only=False).tv is None


def sampled() -> Tally:
    """A few right completions and blocks, with their reports."""
    tally = Tally()
    count_completions(tally, SCENARIO, [[0, 1], [1, 0], [0, 0]])
    count_blocks(tally, SCENARIO, [([0], [0, 1], 1), ([1], [0], 0), ([0], [0, 0], 1)])
    tally.table("calls", (1,))[0] = 3
    return tally


@pytest.mark.parametrize(
    ("record", "verdict", "known"),
    [
        (None, Verdict.PASS, False),
        (ExactRecord(outcome=LOSSLESS, mean_emitted=1.5), Verdict.PASS, False),
        (ExactRecord(outcome=LOSSLESS, mean_emitted=1.5, length_tv=9e-7), Verdict.PASS, True),
        (ExactRecord(outcome=LOSSLESS, mean_emitted=1.5, length_tv=2e-6), Verdict.FAIL, True),
        (ExactRecord(outcome=BIASED, mean_emitted=1.5, length_tv=2e-6), Verdict.FAIL, True),
        (ExactRecord(outcome=OPEN, mean_emitted=1.5, length_tv=2e-6), Verdict.PASS, False),
        (ExactRecord(outcome=DISCARDED, mean_emitted=1.5, length_tv=0.5), Verdict.PASS, False),
    ],
)
def test_lengths_are_judged_exactly_where_their_law_is_known(record, verdict, known) -> None:
    check = check_length(SCENARIO, sampled(), TERMS)
    found = sharpened(check, record)
    assert (found.verdict, found == check) == (verdict, not known)
    if known:
        assert found.tv is not None
        assert found.tv.low == found.tv.high == record.length_tv


def names(tally: Tally, **settings: Any) -> dict[str, CheckResult]:
    plan = make_plan([SCENARIO], AuditConfig(**settings), 0)
    return {check.name.partition("[")[0]: check for check in judge(SCENARIO, tally, plan, 0)}


SPEED = {"length", "acceptance", "rule"}
CONTRACT = {"interface", "reproducible", "counts"}


def test_samples_judge_what_tracing_did_not() -> None:
    law = {"token", "joint"}
    assert set(names(sampled(), mode="statistical")) == law | SPEED | CONTRACT
    for outcome, decided in ((LOSSLESS, True), (BIASED, True), (OPEN, False), (REFUSED, False)):
        tally = sampled()
        tally.add(traced(outcome))
        assert set(names(tally)) == {"exact"} | SPEED | CONTRACT | (set() if decided else law)
    unreported = Tally()
    count_completions(unreported, SCENARIO, [[0, 1]])
    assert set(names(unreported)) == {"exact"} | law | SPEED | CONTRACT - {"counts"}


def test_an_exact_audit_tells_an_ordinary_call_that_went_wrong() -> None:
    assert set(names(traced(OPEN), mode="exact")) == {"exact"}
    wrong = traced(REFUSED)
    wrong.error = {"type": "E", "message": "m", "case": {"x": 1}}
    checks = names(wrong, mode="exact")
    assert set(checks) == {"exact", "interface"}
    assert checks["interface"].verdict is Verdict.ERROR
    assert checks["exact"].verdict is Verdict.INCONCLUSIVE


def test_a_scenario_that_cannot_be_run_is_skipped_whole() -> None:
    tally = Tally()
    tally.note("skipped", {"reason": "no parameter"})
    ((name, check),) = names(tally).items()
    assert (name, check.verdict) == ("token", Verdict.SKIP)
    assert check.message == "not run: no parameter"
