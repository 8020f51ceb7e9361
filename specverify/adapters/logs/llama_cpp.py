"""llama.cpp: ``timings`` of a response, and the log line of a finished request, new and old."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from specverify.adapters.logs.fields import count, derived_steps, named_numbers
from specverify.adapters.logs.record import SpeculationRecord

__all__ = ["read_line", "read_object"]

_COUNTS = re.compile(r"\(\s*(\d+)\s+accepted\s*/\s*(\d+)\s+generated\s*\)")


def read_line(line: str, label: str) -> SpeculationRecord | None:
    """Read one line; None if it is of another kind."""
    match = _COUNTS.search(line)
    if match is None or "draft acceptance" not in line:
        return None
    found = named_numbers(line)
    accepted, drafted = (int(text) for text in match.groups())
    length = found.get("mean acceptance length", [None])[0]
    marginal = tuple(v for v in found.get("acceptance rate per position", []) if v is not None)
    steps, how = derived_steps(accepted, drafted, len(marginal) or None, length)
    derived = {"steps": how} if steps else {}
    if marginal:
        derived["gamma"] = "number of positions"
    rate = found.get("draft acceptance") or found.get("draft acceptance rate") or [None]
    return SpeculationRecord(
        source="llama.cpp-log" if length is not None or marginal else "llama.cpp-log-old",
        label=label,
        steps=steps,
        gamma=len(marginal) or None,
        drafted=drafted,
        accepted=accepted,
        marginal=marginal or None,
        mean_length=length,
        rate=rate[0],
        derived=derived,
        cannot_tell=("the number of steps", "histogram of accepted tokens")
        if length is not None
        else ("steps", "gamma", "acceptance by position"),
    )


def read_object(found: Mapping[str, Any], label: str) -> SpeculationRecord | None:
    """Read one JSON object; None if it is of another kind."""
    if "draft_n_accepted" not in found:
        return None
    return SpeculationRecord(
        source="llama.cpp",
        label=label,
        drafted=count(found.get("draft_n")),
        accepted=count(found["draft_n_accepted"]),
        emitted=count(found.get("predicted_n")),
        cannot_tell=("steps", "gamma", "acceptance by position"),
    )
