"""Many records of one engine as one: sums of counts, where every record has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from specverify.adapters.logs.record import SpeculationRecord

__all__ = ["pooled"]

_CUMULATIVE = ("vllm-metrics",)  # a later scrape repeats what an earlier one counted
_COUNTS = ("steps", "drafted", "accepted", "rejected", "emitted")


def pooled(records: Sequence[SpeculationRecord]) -> list[SpeculationRecord]:
    """One record for each format that has several, in order of their first appearance.

    Args:
        records: What was read.

    Returns:
        Pooled records; what a single one does not tell, the pool does not tell.
    """
    groups: dict[str, list[SpeculationRecord]] = {}
    for record in records:
        groups.setdefault(record.source, []).append(record)
    return [
        _pool(source, group)
        for source, group in groups.items()
        if len(group) > 1 and source not in _CUMULATIVE
    ]


def _pool(source: str, group: Sequence[SpeculationRecord]) -> SpeculationRecord:
    gammas = {record.gamma for record in group}
    sums: dict[str, Any] = {name: _sum([getattr(r, name) for r in group]) for name in _COUNTS}
    return SpeculationRecord(
        source=source,
        label=f"all {len(group)}",
        gamma=gammas.pop() if len(gammas) == 1 else None,
        histogram=_histogram([record.histogram for record in group]),
        marginal=_marginal(group),
        derived={name: text for record in group for name, text in record.derived.items()},
        cannot_tell=group[0].cannot_tell,
        **sums,
    )


def _sum(values: Sequence[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def _histogram(rows: Sequence[tuple[int, ...] | None]) -> tuple[int, ...] | None:
    known = [row for row in rows if row is not None]
    if len(known) != len(rows) or len({len(row) for row in known}) != 1:
        return None
    return tuple(sum(column) for column in zip(*known, strict=True))


def _marginal(group: Sequence[SpeculationRecord]) -> tuple[float, ...] | None:
    """Shares of steps weigh by steps."""
    rows = [record.marginal for record in group if record.marginal is not None]
    weights = [record.steps for record in group if record.steps]
    if not len(rows) == len(weights) == len(group) or len({len(row) for row in rows}) != 1:
        return None
    total = sum(weights)
    return tuple(
        sum(w * value for w, value in zip(weights, column, strict=True)) / total
        for column in zip(*rows, strict=True)
    )
