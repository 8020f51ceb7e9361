"""An audit as text: tables on a terminal, plain aligned lines when piped."""

from __future__ import annotations

import textwrap

from specverify.report.content import (
    check_table,
    explanation,
    problems,
    target_line,
    totals,
    verdicts,
)
from specverify.report.numbers import scalar
from specverify.report.tables import Table, render_table
from specverify.results import AuditResult

__all__ = ["render_text"]


def render_text(result: AuditResult, *, width: int | None = None, color: bool = False) -> str:
    """Render an audit for people.

    Args:
        result: The audit.
        width: Columns of the terminal; ``None`` never wraps (for pipes and files).
        color: Rules and colours for a terminal; plain text without.

    Returns:
        The text, ending in a newline.
    """
    sections = [
        _lines([f"audit of {target_line(result)}", result.summary.headline], width),
        render_table(_verdict_table(result), width=width, color=color),
        _findings(result, width),
        _problems(result, width),
        render_table(check_table(result), width=width, color=color) if result.checks else "",
        _acceptance(result, width),
        _lines([totals(result)], width),
    ]
    return "\n".join(section for section in sections if section)


def _verdict_table(result: AuditResult) -> Table:
    labels, values = zip(*verdicts(result), strict=True)
    return Table(headers=labels, rows=[values])


def _findings(result: AuditResult, width: int | None) -> str:
    lines = [f"{finding.code}: {finding.text}" for finding in result.summary.findings]
    return _section("findings", lines, width)


def _problems(result: AuditResult, width: int | None) -> str:
    return "\n".join(
        _section(f"{check.verdict}: {check.name}", explanation(check), width)
        for check in problems(result)
        if explanation(check)
    )


def _acceptance(result: AuditResult, width: int | None) -> str:
    lines = [f"{name}: {scalar(value)}" for name, value in result.acceptance.items()]
    return _section("acceptance", lines, width)


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
