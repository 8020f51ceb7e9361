"""An audit as text: tables on a terminal, plain aligned lines when piped."""

from __future__ import annotations

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
from specverify.report.overview import headline, overview_table, shared_findings, worst_first
from specverify.report.tables import Table, render_table
from specverify.results import AuditResult, CheckResult

__all__ = ["render_text", "render_text_overview"]

_EXPLAINED = 5


def render_text(result: AuditResult, *, width: int | None = None, color: bool = False) -> str:
    """Render an audit for people; what to read first stands last, where a terminal stops.

    Args:
        result: The audit.
        width: Columns of the terminal; ``None`` never wraps (for pipes and files).
        color: Rules and colours for a terminal; plain text without.

    Returns:
        The text, ending in a newline.
    """
    checks, acceptance = check_table(result), acceptance_table(result)
    sections = [
        _lines([f"audit of {target_line(result)}"], width),
        render_table(checks, width=width, color=color) if checks.rows else "",
        _lines([legend(result)], width) if checks.rows else "",
        render_table(acceptance, width=width, color=color) if acceptance else "",
        _problems(result, width),
        _findings(result, width),
        _section("circumstances", circumstances(result), width),
        render_table(_verdict_table(result), width=width, color=color),
        _lines([totals(result), *conclusion(result)], width),
    ]
    return "\n".join(section for section in sections if section)


def render_text_overview(
    results: Sequence[AuditResult], *, width: int | None = None, color: bool = False
) -> str:
    """Many audits for people: one row each, those to read first in front, then their number.

    Arguments and result as :func:`render_text`.
    """
    ordered = worst_first(results)
    table = overview_table(ordered)
    lines = [
        f"{found.code} ({len(found.audits)}): {found.text}" for found in shared_findings(ordered)
    ]
    sections = [
        render_table(table, width=width, color=color) if table.rows else "",
        _section("findings", lines, width),
        _lines([headline(ordered)], width),
    ]
    return "\n".join(section for section in sections if section)


def _verdict_table(result: AuditResult) -> Table:
    labels, values = zip(*verdicts(result), strict=True)
    return Table(headers=labels, rows=[values])


def _findings(result: AuditResult, width: int | None) -> str:
    lines = [f"{finding.code}: {finding.text}" for finding in result.summary.findings]
    return _section("findings", lines, width)


def _problems(result: AuditResult, width: int | None) -> str:
    told = [check for check in problems(result) if explanation(check)]
    sections = [
        _section(f"{check.verdict}: {check.name}", explanation(check), width) + _code(check)
        for check in told[:_EXPLAINED]
    ]
    if len(told) > _EXPLAINED:
        sections.append(f"{len(told) - _EXPLAINED} more of these are in the table\n")
    return "\n".join(sections)


def _code(check: CheckResult) -> str:
    """Never wrapped: it is there to be copied."""
    code = reproduction(check)
    return textwrap.indent(f"\n{code}\n", "    ", lambda line: bool(line.strip())) if code else ""


def _section(title: str, lines: list[str], width: int | None) -> str:
    return f"{title}\n{_lines(lines, width, indent='  ')}" if lines else ""


def _lines(lines: list[str], width: int | None, *, indent: str = "") -> str:
    if width is None:
        return "".join(f"{indent}{line}\n" for line in lines if line)
    filled = (
        textwrap.fill(line, width, initial_indent=indent, subsequent_indent=f"{indent}  ")
        for line in lines
        if line
    )
    return "".join(f"{line}\n" for line in filled)
