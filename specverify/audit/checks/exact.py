"""The law without samples: what tracing a scenario proved, or why it proved nothing."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import replace

from specverify.audit.exact_record import BIASED, GATE, LARGE, LOSSLESS, OPEN, ExactRecord
from specverify.audit.forms import Form
from specverify.audit.scenarios import Scenario
from specverify.audit.suites import AnyScenario
from specverify.audit.tally import Tally
from specverify.audit.terms import Terms
from specverify.results import CheckResult, Diagnosis, Family, Interval, Verdict

__all__ = ["METHOD", "check_exact", "is_exact", "record_of", "sharpened"]

METHOD = "every path of the random choices, probabilities summed; uniforms as real numbers"

_SHOWN = ("dtype", "tolerance", "paths", "explored", "p_value", "exceptions", "invalid_mass")


def is_exact(check: CheckResult) -> bool:
    """Whether a check is one of traced laws."""
    return check.name.startswith("exact[")


def record_of(tally: Tally) -> ExactRecord | None:
    """What tracing came to, if the scenario was traced."""
    found = tally.cases.get("exact")
    return None if found is None else msgspec.convert(found, type=ExactRecord)


def check_exact(scenario: AnyScenario, tally: Tally, terms: Terms, *, only: bool) -> CheckResult:
    """Judge the exact law of a scenario.

    Args:
        scenario: The rows.
        tally: Holds the record.
        terms: For replaying.
        only: Whether nothing else judges the law: then what was tried in vain is inconclusive,
            else it is skipped, for samples decide. What is too large to try is always skipped.

    Returns:
        ``exact[scenario]``.
    """
    record = record_of(tally) or _untried(scenario)
    undecided = Verdict.INCONCLUSIVE if only and record.outcome != LARGE else Verdict.SKIP
    verdict = {BIASED: Verdict.FAIL, LOSSLESS: Verdict.PASS}.get(record.outcome, undecided)
    told = record.outcome in (BIASED, LOSSLESS, LARGE, OPEN) and record.paths > 0
    return CheckResult(
        name=f"exact[{scenario.name}]",
        family=Family.LAW,
        verdict=verdict,
        params=scenario.params() | _params(record),
        n=record.n,
        tv=_interval(record) if told else None,
        message=_message(record, only=only),
        diagnosis=_diagnosis(record, scenario) if verdict is Verdict.FAIL else None,
        replay=terms.replay(scenario.name),
        case=tally.cases.get("counterexample"),
    )


def sharpened(
    check: CheckResult, record: ExactRecord | None, *, declared: float = 0.0
) -> CheckResult:
    """The check of the emitted length, judged by its exact law where that is known.

    Args:
        check: ``length[scenario]``, judged by samples.
        record: What tracing came to.
        declared: Total variation that the implementation admits: lengths may be as far off, as
            long as samples do not tell.
    """
    if record is None or record.length_tv is None or not record.conclusive:
        return check
    expected = check.params["expected_tokens_per_pass"]
    text = f"tokens/pass {record.mean_emitted:.6g} exactly, standard rule {expected:.6g}"
    params = check.params | {"length_tv": record.length_tv}
    slower = record.length_tv > max(GATE, declared)
    verdict = Verdict.FAIL if slower else check.verdict
    tv = Interval(
        estimate=record.length_tv, low=record.length_tv, high=record.length_tv, confidence=1.0
    )
    return replace(check, verdict=verdict, message=text, params=params, tv=tv)


def _untried(scenario: AnyScenario) -> ExactRecord:
    if isinstance(scenario, Scenario) or scenario.traced:
        return ExactRecord(outcome=OPEN, reason="not reached")
    text = "whole generations of an engine are sampled only"
    return ExactRecord(outcome=OPEN, reason=text)


def _params(record: ExactRecord) -> dict[str, Any]:
    shown = {key: getattr(record, key) for key in _SHOWN}
    shown |= {"outcome": record.outcome, "method": METHOD, "length": record.length}
    shown["confirmed_by"] = record.n
    if record.reason:
        shown["reason"] = record.reason
    if record.length_tv is not None:
        shown |= {"exact_tokens_per_pass": record.mean_emitted, "length_tv": record.length_tv}
    return shown


def _interval(record: ExactRecord) -> Interval:
    # A bound that is certain, not one that holds with some probability.
    estimate = record.low if record.outcome in (BIASED, LOSSLESS) else None
    return Interval(estimate=estimate, low=record.low, high=record.high, confidence=1.0)


def _message(record: ExactRecord, *, only: bool) -> str:
    if record.outcome in (BIASED, LOSSLESS):
        bound = "" if record.high - record.low <= 1e-6 else "at least "
        rounded = record.tolerance < record.high and record.outcome == LOSSLESS
        ending = f", within rounding to float32 ({record.tolerance:g} exceeded)" if rounded else ""
        tokens = "" if record.whole else f", asked for {_tokens(record.length)}"
        distance = f"{bound}{record.low:.3g}"
        return f"exact: total variation {distance} ({record.paths:,} paths){tokens}{ending}"
    begin = {OPEN: "not proved", LARGE: "too large"}.get(record.outcome, record.outcome)
    after = "" if only else "; sampled instead"
    bounds = ""
    if record.paths and record.outcome in (LARGE, OPEN):
        bounds = f", total variation in [{record.low:.3g}, {record.high:.3g}]"
    return f"{begin}: {record.reason}{bounds}{after}"


def _tokens(count: int) -> str:
    return "one token alone" if count == 1 else f"{count} tokens"


def _diagnosis(record: ExactRecord, scenario: AnyScenario) -> Diagnosis:
    if record.exceptions:
        message, mass = next(iter(record.exceptions.items()))
        return Diagnosis(text=f"it raises with probability {mass:.4g}: {message}")
    text = "completion" if scenario.form in (Form.DECODE, Form.GENERATE) else "block"
    where = "" if record.position is None else f" at position {record.position} of the {text}"
    remark = f"; {record.remark}" if record.remark else ""
    return Diagnosis(text=f"the law breaks{where}{remark}", position=record.position)
