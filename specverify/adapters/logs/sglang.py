"""SGLang: ``Decode batch, ...`` lines of the log, and the ``meta_info`` of a request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from specverify.adapters.logs.fields import count, counts, named_numbers, number
from specverify.adapters.logs.record import SpeculationRecord

__all__ = ["read_line", "read_object"]


def read_line(line: str, label: str) -> SpeculationRecord | None:
    """Read one line; None if it is of another kind."""
    found = named_numbers(line)
    if "accept len" not in found:
        return None
    length, rate = found["accept len"][0], found.get("accept rate", [None])[0]
    drafts = (length - 1) / rate if length is not None and rate else None
    return SpeculationRecord(
        source="sglang-log",
        label=label,
        gamma=None if drafts is None else round(drafts, 1),
        mean_length=length,
        rate=rate,
        derived={"gamma": "(length - 1)/rate, to one decimal"} if drafts is not None else {},
        cannot_tell=("counts of any kind", "acceptance by position"),
    )


def read_object(found: Mapping[str, Any], label: str) -> SpeculationRecord | None:
    """Read one JSON object; None if it is of another kind."""
    if "spec_verify_ct" not in found:
        return None
    histogram = counts(found.get("spec_correct_drafts_histogram"))
    return SpeculationRecord(
        source="sglang-request",
        label=label,
        steps=count(found["spec_verify_ct"]),
        gamma=len(histogram) - 1 if histogram else None,
        drafted=count(found.get("spec_num_proposed_drafts")),
        accepted=count(found.get("spec_num_correct_drafts")),
        emitted=count(found.get("completion_tokens")),
        histogram=histogram,
        mean_length=number(found.get("spec_accept_length")),
        rate=number(found.get("spec_accept_rate")),
        derived={"gamma": "entries of the histogram, less one"} if histogram else {},
        cannot_tell=("tokens a step, but for the prefill's token in the printed length",),
    )
