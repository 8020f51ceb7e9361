"""Deviations that break no law, and the one sentence that sums an audit up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from specverify.audit.checks.efficiency import block_outcomes, fitting_scheme, reports_finding
from specverify.audit.checks.transform import engine_scheme_finding
from specverify.audit.scenarios import Scenario
from specverify.audit.schemes import STANDARD, Scheme, mean_length
from specverify.audit.suites import AnyScenario
from specverify.audit.tally import Tally
from specverify.audit.terms import Terms
from specverify.audit.verdicts import family_verdict
from specverify.results import CheckResult, Family, Finding, Summary, Verdict

__all__ = ["find_all", "summarise"]


def find_all(
    scenarios: Sequence[AnyScenario],
    tallies: Mapping[str, Tally],
    terms: Terms,
    checks: Sequence[CheckResult],
) -> tuple[Finding, ...]:
    """Everything worth knowing that is no breach of the law."""
    found: list[Finding] = []
    seen = [
        s
        for s in scenarios
        if isinstance(s, Scenario) and s.name in tallies and tallies[s.name].total("blocks")
    ]
    found += filter(None, [engine_scheme_finding(tallies.values(), terms)])
    if seen:
        scheme = fitting_scheme(seen, tallies, terms)
        if scheme is not STANDARD:
            found.append(_scheme_finding(scheme, seen, tallies))
        found += filter(None, [reports_finding(tallies)])
    if any(c.name.startswith("reproducible") and c.verdict is Verdict.FAIL for c in checks):
        text = "an equal seed gives different answers: randomness comes from elsewhere too"
        found.append(Finding(code="not-reproducible", text=text))
    if any(tally.total("trace") and tally.arrays["trace"][1] for tally in tallies.values()):
        text = "the trace's emitted tokens are not the completion"
        found.append(Finding(code="trace-differs", text=text))
    return tuple(found)


def _scheme_finding(
    scheme: Scheme | None, scenarios: Sequence[Scenario], tallies: Mapping[str, Tally]
) -> Finding:
    data: dict[str, Any] = {}
    for scenario in scenarios:
        outcomes = block_outcomes(tallies[scenario.name], scenario)
        lengths = outcomes.sum(axis=(0, 1))
        row = {
            "measured": float(lengths @ np.arange(len(lengths))) / max(1, int(lengths.sum())),
            "standard": mean_length(STANDARD, scenario, outcomes),
        }
        if scheme is not None:
            row["this_scheme"] = mean_length(scheme, scenario, outcomes)
        data[scenario.name] = row
    if scheme is None:
        text = "acceptance and tokens/pass follow neither the standard rule nor a known scheme"
        return Finding(code="unknown-scheme", text=text, data={"tokens_per_pass": data})
    return Finding(code=scheme.code, text=scheme.text, data={"tokens_per_pass": data})


def summarise(checks: Sequence[CheckResult], findings: tuple[Finding, ...]) -> Summary:
    """The verdicts of the three families, and what to read first."""
    law = family_verdict(checks, Family.LAW)
    contract = family_verdict(checks, Family.CONTRACT)
    return Summary(
        law=law,
        efficiency=family_verdict(checks, Family.EFFICIENCY),
        contract=contract,
        headline=_headline(checks, findings, law, contract),
        findings=findings,
    )


def _headline(
    checks: Sequence[CheckResult],
    findings: tuple[Finding, ...],
    law: Verdict,
    contract: Verdict,
) -> str:
    if contract is Verdict.ERROR:
        error = next(check for check in checks if check.verdict is Verdict.ERROR)
        return f"the implementation misbehaved: {error.message}"
    if law is Verdict.FAIL:
        return _broken(checks)
    bounds = [
        c.tv.high for c in checks if c.name.startswith("token[") and c.tv is not None and c.tv.high
    ]
    bound = f", total variation at most {max(bounds):.2g} a token" if bounds else ""
    text = {
        Verdict.PASS: "law exact as far as seen",
        Verdict.INCONCLUSIVE: "law not refuted, more samples are needed",
    }.get(law, f"law: {law}")
    notes = "; ".join(finding.text for finding in findings)
    return f"{text}{bound if law is Verdict.PASS else ''}" + (f"; {notes}" if notes else "")


def _broken(checks: Sequence[CheckResult]) -> str:
    failed = [c for c in checks if c.family is Family.LAW and c.verdict is Verdict.FAIL]
    told = [c for c in failed if c.diagnosis is not None and c.diagnosis.position is not None]
    first = min(told or failed, key=lambda check: check.p_value or 0.0)
    text = "" if first.diagnosis is None else f": {first.diagnosis.text}"
    return f"the emitted law is not the target's in {len(failed)} checks{text} ({first.name})"
