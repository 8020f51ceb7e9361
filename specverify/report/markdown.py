"""An audit as Markdown, for job summaries and pull requests."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence

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
    verdicts,
)
from specverify.report.overview import (
    headline,
    labels,
    overview_table,
    shared_findings,
    worst_first,
)
from specverify.report.tables import Table
from specverify.results import AuditResult

__all__ = ["markdown_table", "render_markdown", "render_markdown_overview"]

# A job summary holds a megabyte; with five hundred failing audits it must still be shown.
_TOLD = 20


def render_markdown(result: AuditResult) -> str:
    """Render an audit as GitHub-flavoured Markdown, ending in a newline."""
    labels, values = zip(*verdicts(result), strict=True)
    sections = [
        f"## Audit of {_escaped(target_line(result))}",
        _escaped("\n".join(conclusion(result))),
        markdown_table(Table(headers=labels, rows=[[f"**{value}**" for value in values]])),
        _escaped(totals(result)),
        *_findings(result),
        *_problems(result),
        "### Checks",
        markdown_table(_with_code_names(check_table(result))),
        _escaped(legend(result)),
        *_acceptance(result),
        "\n".join(f"- {_escaped(line)}" for line in circumstances(result)),
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def render_markdown_overview(results: Sequence[AuditResult]) -> str:
    """Many audits as Markdown: the verdicts, then what to read first of those with problems."""
    ordered = worst_first(results)
    table = overview_table(ordered)
    rows = [[f"`{row[0]}`", f"**{row[1]}**", *row[2:]] for row in table.rows]
    sections = ["## Audits", _escaped(headline(ordered))]
    if rows:
        sections.append(markdown_table(Table(headers=table.headers, rows=rows, right=table.right)))
    for finding in shared_findings(ordered):
        sections.append(f"- `{finding.code}` ({len(finding.audits)}): {_escaped(finding.text)}")
    named = zip(labels(ordered), ordered, strict=True)
    troubled = [(label, result) for label, result in named if problems(result)]
    for label, result in troubled[:_TOLD]:
        sections += [f"### {_escaped(label)}", *_problems(result)[1:]]
    if len(troubled) > _TOLD:
        sections.append(f"{len(troubled) - _TOLD} more of these are in the table.")
    return "\n\n".join(sections) + "\n"


def markdown_table(table: Table) -> str:
    """A pipe table; cells are taken as Markdown, with pipes escaped."""
    ruler = ["---:" if column in table.right else "---" for column in range(len(table.headers))]
    return "\n".join(_pipe_row(row) for row in (table.headers, ruler, *table.rows))


def _pipe_row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def _findings(result: AuditResult) -> list[str]:
    items = [f"- `{f.code}`: {_escaped(f.text)}" for f in result.summary.findings]
    return ["### Findings", "\n".join(items)] if items else []


def _problems(result: AuditResult) -> list[str]:
    items = []
    for check in problems(result):
        lines = [f"- **{check.verdict}** `{check.name}`", *map(_escaped, explanation(check))]
        items.append("\n  ".join(lines) + _fenced(reproduction(check)))
    return ["### To read first", "\n".join(items)] if items else []


def _fenced(code: str) -> str:
    """A code block within a list item; its fence is longer than any that the code holds."""
    if not code:
        return ""
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", code)), default=0))
    return textwrap.indent(f"\n\n{fence}python\n{code}\n{fence}\n", "  ", bool)


def _acceptance(result: AuditResult) -> list[str]:
    table = acceptance_table(result)
    return [] if table is None else ["### Acceptance", markdown_table(table)]


def _with_code_names(table: Table) -> Table:
    rows = [[row[0], f"`{row[1]}`", *row[2:]] for row in table.rows]
    return Table(headers=table.headers, rows=rows, right=table.right)


def _escaped(text: str) -> str:
    for character in "\\`*_<>#|[]":
        text = text.replace(character, f"\\{character}")
    return text
