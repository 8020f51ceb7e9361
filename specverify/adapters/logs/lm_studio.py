"""Statistics of an LM Studio prediction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from specverify.adapters.logs.fields import count
from specverify.adapters.logs.record import SpeculationRecord

__all__ = ["read_object"]


def read_object(found: Mapping[str, Any], label: str) -> SpeculationRecord | None:
    """Read one JSON object; None if it is of another kind."""
    if "accepted_draft_tokens_count" not in found:
        return None
    return SpeculationRecord(
        source="lm-studio",
        label=label,
        drafted=count(found.get("total_draft_tokens_count")),
        accepted=count(found["accepted_draft_tokens_count"]),
        rejected=count(found.get("rejected_draft_tokens_count")),
        cannot_tell=("steps", "gamma", "acceptance by position"),
    )
