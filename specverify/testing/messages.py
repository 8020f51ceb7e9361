"""What a failing test prints: the diagnosis, the smallest case, the command that repeats it."""

from __future__ import annotations

import textwrap

from specverify.results import AuditResult, CheckResult, Verdict
from specverify.testing.enumeration import CaseResult, Enumeration
from specverify.testing.evidence import Evidence
from specverify.testing.failures import NotLosslessError
from specverify.testing.naming import command, display_name, known_bugs
from specverify.testing.searching import Search

__all__ = ["audit_failure", "diagnosis", "exact_failure", "open_question", "repeat"]


def exact_failure(evidence: Evidence, law: Enumeration, found: Search) -> str:
    """Text of a proved deviation.

    Args:
        evidence: The implementation.
        law: The enumerated cases.
        found: The search for a smaller case.
    """
    name = display_name(evidence.implementation)
    lines = []
    if law.failed:
        where = f"in the case {law.worst.name}"
        lines.append(f"{name} is not lossless: {_distance(law.worst)} {where}")
        lines.append(f"  {diagnosis(law)}")
    else:
        lines.append(f"{name} is not lossless, although the fixed cases show no deviation")
    lines += _counterexample(found)
    return "\n".join([*lines, *repeat(evidence)])


def diagnosis(law: Enumeration) -> str:
    """Position, stage, and the known bugs whose laws are exactly the one found."""
    raising = max(law.results, key=lambda result: result.check.law.exception_mass).check.law
    if raising.exceptions:
        message = next(iter(raising.exceptions))
        return f"it raises, with probability up to {raising.exception_mass:.4g}: {message}"
    of = "completion" if law.results[0].loop is not None else "block"
    where = f"the law breaks at position {law.position} of the {of} (from 0)"
    bugs = known_bugs(law.results)
    if not bugs:
        return f"{where}; its law is that of no known bug"
    from specverify.bugs.matching import stage_of

    others = f" (and with {', '.join(bugs[1:])})" if bugs[1:] else ""
    return f"{where}; stage: {stage_of(bugs[0])}; consistent with {bugs[0]}{others}"


def audit_failure(evidence: Evidence, result: AuditResult) -> NotLosslessError:
    """The error of an audit by samples that failed, or whose implementation misbehaved."""
    gravest = [c for c in result.checks if c.verdict is Verdict.ERROR]
    gravest += [c for c in result.checks if c.verdict is Verdict.FAIL and c.diagnosis is not None]
    gravest.sort(key=lambda check: (check.verdict is not Verdict.ERROR, check.p_value or 0.0))
    lines = [f"{display_name(evidence.implementation)}: {result.summary.headline}"]
    lines += [f"  not enumerated: {evidence.why_statistical}"]
    lines += [f"  {_evidence(check)}" for check in gravest[:1]]
    position = next((c.diagnosis.position for c in gravest if c.diagnosis), None)
    low = next((c.tv.low for c in gravest if c.tv is not None), None)
    text = "\n".join([*lines, *repeat(evidence)])
    return NotLosslessError(text, tv=low, position=position)


def open_question(evidence: Evidence) -> str:
    """Text of a check that its budget left open."""
    name = display_name(evidence.implementation)
    limit = evidence.options.budget or "every planned sample"
    lines = [f"{name}: neither shown lossless nor refuted within {limit}"]
    if evidence.why_statistical:
        lines.append(f"  not enumerated: {evidence.why_statistical}")
    return "\n".join([*lines, *repeat(evidence)])


def repeat(evidence: Evidence) -> list[str]:
    """Lines with the command that audits the implementation from the shell."""
    found = command(evidence.implementation, evidence.options)
    if found is None:
        return ["", "audit it from the shell: bind it to a name at the top of a module first"]
    return ["", "repeat it from the shell:", f"    {found}"]


def _distance(result: CaseResult) -> str:
    low, high = result.check.tv
    if high - low <= result.check.tolerance:
        return f"exact total variation {low:.6g}"
    return f"total variation between {low:.6g} and {high:.6g}"


def _counterexample(found: Search) -> list[str]:
    case = found.counterexample
    if case is None:
        why = found.why_not or f"none of {found.cases} drawn cases deviates"
        return ["", f"no smaller counterexample: {why}"]
    gamma, vocab = case.draft_probs.shape
    size = f"V = {vocab}, gamma = {gamma}, total variation {case.tv:.6g}"
    return [
        "",
        f"smallest counterexample found ({size}), to paste into a test:",
        "",
        textwrap.indent(case.snippet, "    "),
    ]


def _evidence(check: CheckResult) -> str:
    text = check.message if check.diagnosis is None else check.diagnosis.text
    shown = "" if check.p_value is None else f", p = {check.p_value:.3g}"
    return f"{check.name}: {text} (n = {check.n}{shown})"
