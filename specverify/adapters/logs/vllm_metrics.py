"""vLLM's ``/metrics`` in the Prometheus text format: cumulative counters by engine and model."""

from __future__ import annotations

import itertools
import re
from collections import defaultdict

from specverify.adapters.logs.fields import count, number
from specverify.adapters.logs.record import SpeculationRecord

__all__ = ["read_metrics"]

_PREFIX = "vllm:spec_decode_num_"
_SAMPLE = re.compile(r"^(?P<name>[a-zA-Z_:][\w:]*)(?:\{(?P<labels>.*)\})?\s+(?P<value>\S+)")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


def read_metrics(text: str) -> list[SpeculationRecord]:
    """Records by engine and model; none where the text has no such counter."""
    groups: dict[str, dict[str, int | None]] = defaultdict(dict)
    positions: dict[str, dict[int, int]] = defaultdict(dict)
    for line in text.splitlines():
        match = _SAMPLE.match(line.strip())
        if match is None or not match["name"].startswith(_PREFIX):
            continue
        labels = dict(_LABEL.findall(match["labels"] or ""))
        name = match["name"].removeprefix(_PREFIX).removesuffix("_total")
        value, place = _value(match["value"]), labels.pop("position", None)
        group = ", ".join(f"{key} {labels[key]}" for key in sorted(labels))
        if name == "accepted_tokens_per_pos" and place is not None and value is not None:
            positions[group][int(place)] = value
        elif name in ("drafts", "draft_tokens", "accepted_tokens"):  # not `_created`
            groups[group][name] = value
    return [_record(group, found, positions[group]) for group, found in groups.items()]


def _value(text: str) -> int | None:
    try:
        return count(number(float(text)))
    except ValueError:
        return None


def _record(
    group: str, found: dict[str, int | None], positions: dict[int, int]
) -> SpeculationRecord:
    steps = found.get("drafts")
    gamma = len(positions) if set(positions) == set(range(len(positions))) else 0
    reached = [positions[place] for place in range(gamma)]
    known = steps is not None and gamma > 0
    return SpeculationRecord(
        source="vllm-metrics",
        label=group,
        steps=steps,
        gamma=gamma or None,
        drafted=found.get("draft_tokens"),
        accepted=found.get("accepted_tokens"),
        histogram=_histogram(steps, reached) if known and steps is not None else None,
        marginal=tuple(n / steps for n in reached) if known and steps else None,
        derived={
            "gamma": "number of positions",
            "histogram": "differences of the counters by position",
        }
        if known
        else {},
        cannot_tell=("single steps or requests: counters only grow",),
    )


def _histogram(steps: int, reached: list[int]) -> tuple[int, ...]:
    counters = [steps, *reached, 0]
    return tuple(a - b for a, b in itertools.pairwise(counters))
