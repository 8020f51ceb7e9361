"""Iteration statistics of TensorRT-LLM."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from specverify.adapters.logs.fields import count, number
from specverify.adapters.logs.record import SpeculationRecord

__all__ = ["read_object"]


def read_object(found: Mapping[str, Any], label: str) -> SpeculationRecord | None:
    """Read one JSON object; None if it is of another kind."""
    if "numRequestsWithDraftTokens" not in found:
        return None
    steps, drafted = count(found["numRequestsWithDraftTokens"]), count(found.get("numDraftTokens"))
    gamma = drafted / steps if steps and drafted is not None else None
    return SpeculationRecord(
        source="tensorrt-llm",
        label=label,
        steps=steps,
        gamma=gamma,
        drafted=drafted,
        accepted=count(found.get("numAcceptedTokens")),
        mean_length=number(found.get("acceptanceLength")),
        derived={"gamma": "mean drafted tokens of a request"} if gamma else {},
        cannot_tell=("acceptance by position", "whether all requests drafted alike"),
    )
