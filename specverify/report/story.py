"""What the page says, in its order: text and tables, without layout."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from specverify.report.content import (
    acceptance_table,
    check_table,
    circumstances,
    conclusion,
    explanation,
    legend,
    problems,
    reproduction,
    target_line,
    totals,
)
from specverify.report.overview import (
    headline,
    labels,
    overview_table,
    shared_findings,
    worst_first,
)
from specverify.report.tables import Table
from specverify.results import AuditResult, CheckResult

__all__ = ["AuditStory", "FindingStory", "ProblemStory", "Story", "tell"]

# With five hundred audits the page must still open: the table has all, the rest the worst.
_DETAILED = 40
_EXPLAINED = 20
_PROBLEMS_EACH = 5


@dataclass(frozen=True)
class ProblemStory:
    """A check that needs an explanation.

    Attributes:
        verdict: Its verdict.
        name: Its name.
        lines: What there is to say.
        code: Python that shows the failure; empty where there is none.
        replay: The command that runs it again; empty where it cannot be told.
    """

    verdict: str
    name: str
    lines: list[str]
    code: str
    replay: str


@dataclass(frozen=True)
class AuditStory:
    """One audit in full.

    Attributes:
        anchor: Identifier within the page, free of anything that an audited target may say.
        label: Its name.
        verdict: Overall verdict.
        target: What was audited.
        conclusion: What to read first.
        problems: The checks to explain, the first few of them.
        more_problems: How many more there are.
        totals: Checks by verdict.
        checks: Its table of checks.
        legend: What the table's columns mean.
        acceptance: Acceptance by scenario, if counted.
        circumstances: What is needed to run it again.
        argv: The command.
    """

    anchor: str
    label: str
    verdict: str
    target: str
    conclusion: list[str]
    problems: list[ProblemStory]
    more_problems: int
    totals: str
    checks: Table
    legend: str
    acceptance: Table | None
    circumstances: list[str]
    argv: str


@dataclass(frozen=True)
class FindingStory:
    """A finding, and the audits that made it."""

    code: str
    text: str
    audits: list[str]


@dataclass(frozen=True)
class Story:
    """Everything that the page says about audits.

    Attributes:
        headline: One sentence.
        verdict: The gravest verdict; empty without an audit.
        overview: One row an audit, worst first.
        anchors: For each row the anchor of its details; empty where they were left out.
        findings: Findings of all audits.
        audits: The audits in full, worst first.
        left_out: How many audits are in the table alone.
    """

    headline: str
    verdict: str
    overview: Table
    anchors: list[str]
    findings: list[FindingStory]
    audits: list[AuditStory]
    left_out: int


def tell(results: Sequence[AuditResult]) -> Story:
    """The story of any number of audits."""
    worst = worst_first(results)
    names = labels(worst)
    detailed = worst[:_DETAILED]
    audits = [
        _audit(index, name, result)
        for index, (name, result) in enumerate(zip(names, detailed, strict=False))
    ]
    anchors = [audit.anchor for audit in audits] + [""] * (len(worst) - len(audits))
    findings = [
        FindingStory(found.code, found.text, [names[index] for index in found.audits])
        for found in shared_findings(worst)
    ]
    return Story(
        headline=headline(worst),
        verdict=str(worst[0].verdict) if worst else "",
        overview=overview_table(worst),
        anchors=anchors,
        findings=findings,
        audits=audits,
        left_out=len(worst) - len(audits),
    )


def _audit(index: int, label: str, result: AuditResult) -> AuditStory:
    found = problems(result) if index < _EXPLAINED else []
    return AuditStory(
        anchor=f"audit-{index + 1}",
        label=label,
        verdict=str(result.verdict),
        target=target_line(result),
        conclusion=conclusion(result),
        problems=[_problem(check) for check in _explained(found)[:_PROBLEMS_EACH]],
        more_problems=max(0, len(_explained(found)) - _PROBLEMS_EACH),
        totals=totals(result),
        checks=check_table(result),
        legend=legend(result),
        acceptance=acceptance_table(result),
        circumstances=circumstances(result),
        argv=" ".join(result.argv),
    )


def _explained(checks: Sequence[CheckResult]) -> list[CheckResult]:
    """Those with something to say."""
    return [check for check in checks if explanation(check)]


def _problem(check: CheckResult) -> ProblemStory:
    command = f"specverify replay {shlex.quote(f'RUN/{check.name}')}"
    return ProblemStory(
        verdict=str(check.verdict),
        name=check.name,
        lines=explanation(check),
        code=reproduction(check),
        replay=command if check.replay else "",
    )
