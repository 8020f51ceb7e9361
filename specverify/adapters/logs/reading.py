"""Find every record in a text: log lines, JSON, JSON lines or Prometheus metrics, also mixed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

from specverify.adapters.logs import (
    llama_cpp,
    lm_studio,
    sglang,
    tensorrt_llm,
    vllm_log,
    vllm_metrics,
    vllm_request,
)
from specverify.adapters.logs.fields import nested_objects
from specverify.adapters.logs.record import SpeculationRecord
from specverify.errors import InvalidInputError

__all__ = ["read_records"]

ObjectReader: TypeAlias = Callable[[Mapping[str, Any], str], SpeculationRecord | None]
LineReader: TypeAlias = Callable[[str, str], SpeculationRecord | None]

_OBJECTS: tuple[ObjectReader, ...] = (
    vllm_request.read_object,
    sglang.read_object,
    tensorrt_llm.read_object,
    llama_cpp.read_object,
    lm_studio.read_object,
)
_LINES: tuple[LineReader, ...] = (vllm_log.read_line, llama_cpp.read_line, sglang.read_line)


def read_records(text: str) -> list[SpeculationRecord]:
    """Read what engines print about speculation.

    Args:
        text: A log, a response or an array of responses in JSON, JSON lines, or ``/metrics``.

    Returns:
        Records in the order of the text; those of metrics last.

    Raises:
        InvalidInputError: If nothing in the text speaks of speculation.
    """
    whole = _parsed(text)
    if whole is not None:
        found = list(_from_json(whole, "json"))
    else:
        found = [
            record
            for place, line in enumerate(text.splitlines(), start=1)
            for record in _from_line(line, f"line {place}")
        ]
        found += vllm_metrics.read_metrics(text)
    if not found:
        raise InvalidInputError("text", "has no line, object or metric about speculation")
    return found


def _from_line(line: str, label: str) -> Iterator[SpeculationRecord]:
    value = _parsed(line)
    if value is not None:
        yield from _from_json(value, label)
        return
    for read in _LINES:
        record = read(line, label)
        if record is not None:
            yield record
            return


def _from_json(value: Any, label: str) -> Iterator[SpeculationRecord]:
    for found in nested_objects(value):
        for read in _OBJECTS:
            record = read(found, label)
            if record is not None:
                yield record


def _parsed(text: str) -> Any:
    """JSON objects and arrays; None where the text is neither."""
    stripped = text.strip()
    if not stripped.startswith(("{", "[")):
        return None
    try:
        return json.loads(stripped)
    except ValueError:
        return None
