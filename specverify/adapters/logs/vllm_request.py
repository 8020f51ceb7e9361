"""Speculation metrics that vLLM returns with one request (only with ``n = 1``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from specverify.adapters.logs.fields import count, counts, number
from specverify.adapters.logs.record import SpeculationRecord

__all__ = ["read_object"]


def read_object(found: Mapping[str, Any], label: str) -> SpeculationRecord | None:
    """Read one JSON object; None if it is of another kind."""
    if "num_spec_steps" not in found:
        return None
    return SpeculationRecord(
        source="vllm-request",
        label=label,
        steps=count(found.get("num_spec_steps")),
        gamma=count(found.get("num_spec_tokens")),
        drafted=count(found.get("num_draft_tokens")),
        accepted=count(found.get("num_accepted_draft_tokens")),
        histogram=counts(found.get("acceptance_histogram")),
        step_accepted=counts(found.get("per_step_accepted")),
        step_drafted=counts(found.get("per_step_drafted")),
        mean_length=number(found.get("mean_acceptance_length")),
        rate=number(found.get("draft_acceptance_rate")),
    )
