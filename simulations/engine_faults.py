"""Audits of deliberately wrong settings: as what each was told, and their table for people."""

from __future__ import annotations

from typing import Any

__all__ = ["CONFIGURATION", "EFFICIENCY", "LAW", "faults_table", "told_as"]

LAW, EFFICIENCY, CONFIGURATION = "law", "efficiency", "configuration"
NOTHING = "nothing"
_HEAD = ("wrong setting", "should be told as", "told as", "exit code", "what was said")


def told_as(record: dict[str, Any]) -> str:
    """Whether an audit refused the settings, found the law broken, or only the speed off."""
    if "refused" in record:
        return CONFIGURATION
    if record["law"] == "fail":
        return LAW
    return EFFICIENCY if record["efficiency"] == "fail" else NOTHING


def faults_table(records: dict[str, dict[str, Any]]) -> list[str]:
    """Lines of the second table; none without such audits."""
    if not records:
        return []
    lines = [
        "",
        "## Deliberately wrong settings",
        "",
        "Each engine passes above; here one setting is wrong, and nothing tells the audit which.",
        "",
        f"| {' | '.join(_HEAD)} |",
        f"|{'---|' * len(_HEAD)}",
    ]
    lines += [f"| {' | '.join(_cells(name, record))} |" for name, record in records.items()]
    return [*lines, "", *(f"- {name}: `{r['command']}`" for name, r in records.items())]


def _cells(name: str, record: dict[str, Any]) -> list[str]:
    if "problem" in record:
        return [name, record["expect"], "not run", "-", record["problem"]]
    said = record.get("refused") or _said(record)
    return [name, record["expect"], told_as(record), str(record["exit_code"]), said]


def _said(record: dict[str, Any]) -> str:
    codes = "; ".join(finding["code"] for finding in record["findings"])
    return record["headline"] if record["law"] == "fail" else codes or record["headline"]
