"""Deviations that break no law, and the one sentence that sums an audit up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from specverify.audit.checks.drafted import drafted_finding
from specverify.audit.checks.efficiency import block_outcomes, fitting_scheme, reports_finding
from specverify.audit.checks.exact import is_exact, record_of
from specverify.audit.checks.fit import TOO_GOOD
from specverify.audit.checks.handed import HANDED_CODES, handed_findings
from specverify.audit.checks.transform import engine_scheme_finding
from specverify.audit.drafts import nothing_drafted
from specverify.audit.exact_record import BIASED, DISCARDED, REFUSED
from specverify.audit.scenarios import Scenario
from specverify.audit.schemes import BLOCK, STANDARD, Scheme, mean_length
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
    found += filter(None, [nothing_drafted(tallies.values())])
    found += handed_findings(tallies.values())
    found += filter(None, [drafted_finding(tallies)])
    if seen:
        scheme = fitting_scheme(seen, tallies, terms)
        if scheme is BLOCK and _biased(tallies):
            scheme = None  # what accepts more at the price of the law is no block verification
        if scheme is not STANDARD:
            found.append(_scheme_finding(scheme, seen, tallies))
        found += filter(None, [reports_finding(tallies)])
    if not found:
        found += _rule_findings(checks)
    found += _fit_findings(checks)
    if any(c.name.startswith("reproducible") and c.verdict is Verdict.FAIL for c in checks):
        text = "an equal seed gives different answers: randomness comes from elsewhere too"
        found.append(Finding(code="not-reproducible", text=text))
    found += _untraced(tallies)
    if any(tally.total("trace") and tally.arrays["trace"][1] for tally in tallies.values()):
        text = "the trace's emitted tokens are not the completion"
        found.append(Finding(code="trace-differs", text=text))
    return tuple(found)


def _rule_findings(checks: Sequence[CheckResult]) -> list[Finding]:
    """Another rule than the standard one that counts of accepted drafts do not show."""
    if family_verdict(checks, Family.LAW) is Verdict.FAIL:
        return []
    broken = [c for c in checks if c.name.startswith("rule[") and c.verdict is Verdict.FAIL]
    if not broken:
        return []
    text = "drafts, accept flags and last tokens do not follow the standard rule"
    data = {str(check.params["scenario"]): check.message for check in broken}
    return [Finding(code="not-standard-rule", text=text, data=data)]


def _fit_findings(checks: Sequence[CheckResult]) -> list[Finding]:
    """Counts that no independent draws give: a fault of the experiment, whoever is to blame."""
    coupled = {c.name: c.message for c in checks if c.params.get(TOO_GOOD)}
    if not coupled:
        return []
    text = "counts fit the law too well to be independent draws: nothing is known of the law"
    return [Finding(code="too-good-fit", text=text, data=coupled)]


def _untraced(tallies: Mapping[str, Tally]) -> list[Finding]:
    """Why laws were not traced, and laws that were traced and not believed: a finding of each."""
    reasons: dict[str, dict[str, str]] = {}
    for name, tally in tallies.items():
        record = record_of(tally)
        if record is not None and record.outcome in (DISCARDED, REFUSED):
            code = "exact-law-discarded" if record.outcome == DISCARDED else "not-traced"
            reasons.setdefault(code, {})[name] = record.reason
    return [_without_law(code, told) for code, told in reasons.items()]


def _without_law(code: str, reasons: Mapping[str, str]) -> Finding:
    """One finding of all scenarios, by the reason that is the commonest."""
    counted = Counter(reasons.values())
    first, others = counted.most_common(1)[0][0], len(counted) - 1
    more = f" (and {others} other reason{'s' * (others > 1)})" if others else ""
    text = f"no exact law in {len(reasons)} scenario{'s' * (len(reasons) > 1)}: {first}{more}"
    return Finding(code=code, text=text, data=dict(reasons))


def _biased(tallies: Mapping[str, Tally]) -> bool:
    """Whether a traced law is not the target's."""
    records = [record_of(tally) for tally in tallies.values()]
    return any(record is not None and record.outcome == BIASED for record in records)


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
        if scheme is not None and scheme.applies(scenario):
            row["this_scheme"] = mean_length(scheme, scenario, outcomes)
        data[scenario.name] = row
    if scheme is None:
        text = "acceptance and tokens/pass follow neither the standard rule nor a known scheme"
        return Finding(code="unknown-scheme", text=text, data={"tokens_per_pass": data})
    return Finding(code=scheme.code, text=scheme.text, data={"tokens_per_pass": data})


def summarise(
    checks: Sequence[CheckResult],
    findings: tuple[Finding, ...],
    *,
    declared_tv: float | None = None,
) -> Summary:
    """The verdicts of the three families, and what to read first.

    Args:
        checks: All checks.
        findings: What was found besides.
        declared_tv: Total variation that the implementation admits; None if it claims none.
    """
    law = family_verdict(checks, Family.LAW)
    contract = family_verdict(checks, Family.CONTRACT)
    return Summary(
        law=law,
        efficiency=family_verdict(checks, Family.EFFICIENCY),
        contract=contract,
        headline=_headline(checks, findings, (law, contract), declared_tv),
        findings=findings,
    )


def _headline(
    checks: Sequence[CheckResult],
    findings: tuple[Finding, ...],
    verdicts: tuple[Verdict, Verdict],
    declared_tv: float | None,
) -> str:
    law, contract = verdicts
    if not checks:
        return "nothing was judged: no check has a name that was asked for"
    if contract is Verdict.ERROR:
        error = next(check for check in checks if check.verdict is Verdict.ERROR)
        return f"the implementation misbehaved: {error.message}"
    if law is Verdict.FAIL:
        sides = "; ".join(f.text for f in findings if f.code in HANDED_CODES)
        return _broken(checks) + (f"; {sides}" if sides else "")
    proved = [c for c in checks if is_exact(c) and c.verdict is Verdict.PASS]
    bounds = [
        c.tv.high for c in checks if c.name.startswith("token[") and c.tv is not None and c.tv.high
    ]
    bound = f", total variation at most {max(bounds):.2g} a token" if bounds else ""
    text = {
        Verdict.PASS: "law exact as far as seen"
        if declared_tv is None
        else f"law within the declared total variation of {declared_tv:g} as far as seen",
        Verdict.INCONCLUSIVE: "law not refuted, more samples are needed"
        if not any(finding.code == "too-good-fit" for finding in findings)
        else "law not judged",
    }.get(law, f"law: {law}")
    if proved:
        worst = max(c.tv.high or 0.0 for c in proved if c.tv is not None)
        paths = sum(int(c.params["paths"]) for c in proved)
        text += (
            f"; proved on {len(proved)} scenarios (total variation {worst:.1g}, {paths:,} paths)"
        )
        bound = bound and f"{bound} on the others"
    notes = "; ".join(finding.text for finding in findings)
    return f"{text}{bound if law is Verdict.PASS else ''}" + (f"; {notes}" if notes else "")


def _broken(checks: Sequence[CheckResult]) -> str:
    failed = [c for c in checks if c.family is Family.LAW and c.verdict is Verdict.FAIL]
    told = [c for c in failed if c.diagnosis is not None and c.diagnosis.position is not None]
    first = min(told or failed, key=lambda check: check.p_value or 0.0)
    text = "" if first.diagnosis is None else f": {first.diagnosis.text}"
    return f"the emitted law is not the target's in {len(failed)} checks{text} ({first.name})"
