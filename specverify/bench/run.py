"""The groups of measurements, and a record of them for people and programs."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from specverify.bench.timing import Measurement, Size
from specverify.errors import InvalidInputError
from specverify.report.markdown import markdown_table
from specverify.report.tables import Table

__all__ = ["GROUPS", "as_markdown", "chosen", "machine", "measured", "rows"]

GROUPS: Mapping[str, str] = {
    "verification": "specverify.bench.verification:verification",
    "decoding": "specverify.bench.decoding:decoding",
    "audit": "specverify.bench.auditing:auditing",
    "start-up": "specverify.bench.processes:start_up",
    "simulation": "specverify.bench.simulating:simulation",
    "memory": "specverify.bench.processes:memory",
}
"""Function of each group, loaded when it is run."""


def chosen(names: Sequence[str]) -> list[str]:
    """The groups that are named, in their usual order; all if none is.

    Raises:
        InvalidInputError: If a name is none of them.
    """
    for name in names:
        if name not in GROUPS:
            raise InvalidInputError("--only", f"must be among {', '.join(GROUPS)}; got {name!r}")
    return [name for name in GROUPS if name in names or not names]


def measured(group: str, size: Size) -> Iterator[dict[str, Any]]:
    """Measure a group.

    Args:
        group: Key of ``GROUPS``.
        size: How much to measure.

    Yields:
        One record a setting, of JSON values: ``what``, ``unit``, ``sides`` and ``ratios`` (median
        and quartiles by name), ``asked`` (marks) and ``note``.
    """
    module, _, function = GROUPS[group].partition(":")
    run: Callable[[Size], Iterator[Measurement]] = getattr(import_module(module), function)
    for found in run(size):
        yield {"group": group} | found.record()


def machine() -> dict[str, Any]:
    """What the figures depend on."""
    versions = {}
    for name in ("specdec-verify", "numpy", "torch", "transformers"):
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = "not installed"
    return {
        "processor": platform.machine(),
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        "python": platform.python_version(),
        "versions": versions,
    }


def rows(record: Mapping[str, Any]) -> list[tuple[str, str]]:
    """A record as lines of a name and a value: sides, ratios, marks, note."""
    lines = [(name, f"{_spread(side)} {record['unit']}") for name, side in record["sides"].items()]
    lines += [(name, f"{_spread(value)} x") for name, value in record["ratios"].items()]
    for mark in record["asked"]:
        verdict = "yes" if mark["holds"] else "NO"
        lines.append((f"asked: {mark['mark']}", f"measured: {mark['measured']}: {verdict}"))
    return [*lines, ("note", record["note"])] if record["note"] else lines


def as_markdown(content: Mapping[str, Any]) -> str:
    """Everything as a page: the marks first, then a table a setting."""
    marks = [
        [mark["mark"], mark["measured"], "yes" if mark["holds"] else "**NO**"]
        for record in content["measurements"]
        for mark in record["asked"]
    ]
    sections = [
        "# Speed",
        f"`{content['command']}`; medians with quartiles of {content['runs']} alternating runs"
        " (one for memory, three for the cost of an audit against its calls).",
        "Jobs of one thread are timed by its CPU clock, fresh processes by the wall's.",
        f"Machine: {_machine_line(content['machine'])}.",
    ]
    if marks:
        sections += ["## Asked", markdown_table(Table(["asked", "measured", "holds"], marks))]
    group = ""
    for record in content["measurements"]:
        if record["group"] != group:
            group = record["group"]
            sections.append(f"## {group}")
        sections.append(markdown_table(Table([record["what"], ""], rows(record))))
    return "\n\n".join(sections) + "\n"


def _machine_line(found: Mapping[str, Any]) -> str:
    versions = ", ".join(f"{name} {number}" for name, number in found["versions"].items())
    load = "unknown" if found["load"] is None else f"{found['load']:.1f}"
    return f"{found['processor']}, {found['cores']} cores, load {load} at the start; {versions}"


def _spread(value: Mapping[str, float]) -> str:
    median, low, high = (_digits(value[name]) for name in ("median", "low", "high"))
    return f"{median} [{low}, {high}]" if value["runs"] > 1 else median


def _digits(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
