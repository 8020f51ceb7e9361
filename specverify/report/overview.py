"""Many audits at a glance: their names, one row each, and the findings they share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from specverify.report.content import VERDICT_ORDER, totals, verdicts
from specverify.report.numbers import decimal, interval, scalar
from specverify.report.tables import Table
from specverify.results import AuditResult, CheckResult, Family, Verdict

__all__ = [
    "SharedFinding",
    "headline",
    "labels",
    "law_bound",
    "overview_table",
    "shared_findings",
    "worst_first",
]

_OFF = frozenset({Verdict.FAIL, Verdict.XFAIL})


class SharedFinding(NamedTuple):
    """A finding and the audits that made it."""

    code: str
    text: str
    audits: tuple[int, ...]


def worst_first(results: Sequence[AuditResult]) -> list[AuditResult]:
    """Audits with the ones to read first in front; otherwise in the order given."""
    return sorted(results, key=lambda result: VERDICT_ORDER.index(result.verdict))


def labels(results: Sequence[AuditResult]) -> list[str]:
    """A name for each audit: its target's, and its run where several share that."""
    names = [scalar(result.target.get("name", "?")) for result in results]
    shared = Counter(names)
    return [
        name if shared[name] == 1 else f"{name} ({result.run_id})"
        for name, result in zip(names, results, strict=True)
    ]


def headline(results: Sequence[AuditResult]) -> str:
    """``3 audits: 1 fail, 2 pass``; one audit speaks for itself."""
    if len(results) == 1:
        return results[0].summary.headline
    seen = Counter(result.verdict for result in results)
    numbers = ", ".join(f"{seen[verdict]} {verdict}" for verdict in VERDICT_ORDER if seen[verdict])
    return f"{len(results)} audits: {numbers}" if results else "no audit was given"


def law_bound(result: AuditResult) -> CheckResult | None:
    """The check that says how far the law may be off: of those that failed, else of all that ran,
    the one with the largest upper bound.
    """
    bounded = [
        check
        for check in result.checks
        if check.family is Family.LAW and check.verdict is not Verdict.SKIP and _high(check)
    ]
    return max(bounded, key=lambda check: (check.verdict in _OFF, _high(check)), default=None)


def overview_table(results: Sequence[AuditResult]) -> Table:
    """One row an audit: its verdicts, and the bound on the law with what would have been found."""
    rows = []
    for label, result in zip(labels(results), results, strict=True):
        bound = law_bound(result)
        rows.append(
            [
                label,
                *(verdict for _, verdict in verdicts(result)),
                interval(None if bound is None else bound.tv),
                decimal(None if bound is None else bound.detectable_tv),
                totals(result).partition(": ")[2],
            ]
        )
    headers = ["audit", "verdict", "law", "efficiency", "contract"]
    headers += ["TV [interval]", "detectable", "checks"]
    return Table(headers=headers, rows=rows, right=frozenset({6}))


def shared_findings(results: Sequence[AuditResult]) -> list[SharedFinding]:
    """Findings of all audits, the same one told once, with the indices of its audits."""
    owners: dict[tuple[str, str], list[int]] = {}
    for index, result in enumerate(results):
        for finding in result.summary.findings:
            owners.setdefault((finding.code, finding.text), []).append(index)
    return [SharedFinding(*key, tuple(audits)) for key, audits in owners.items()]


def _high(check: CheckResult) -> float:
    return 0.0 if check.tv is None else check.tv.high or 0.0
