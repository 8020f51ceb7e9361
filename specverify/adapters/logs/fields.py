"""Numbers out of log lines and JSON: by key, never by order; ``nan`` and null are unknown."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

__all__ = [
    "ROUNDING",
    "count",
    "counts",
    "derived_steps",
    "named_numbers",
    "nested_objects",
    "number",
]

ROUNDING = 0.0051
"""Engines print lengths and rates with two decimals or more."""

_NUMBER = r"[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|nan|inf)"
# A key runs up to its colon or equal sign; numbers may follow one another, comma-separated.
_FIELD = re.compile(
    rf"([A-Za-z#][A-Za-z #_/-]*?)\s*[:=]\s*\(?\s*({_NUMBER}(?:\s*,\s*{_NUMBER})*)\s*(%?)",
    re.IGNORECASE,
)


def named_numbers(line: str) -> dict[str, list[float | None]]:
    """Numbers by the key before them, keys in lower case; a percentage becomes a fraction."""
    found: dict[str, list[float | None]] = {}
    for key, numbers, percent in _FIELD.findall(line):
        scale = 100.0 if percent else 1.0
        values = [number(float(text)) for text in numbers.split(",")]
        found[key.strip().lower()] = [None if v is None else v / scale for v in values]
    return found


def number(value: Any) -> float | None:
    """A finite number, or None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) else None


def count(value: Any) -> int | None:
    """A whole number, or None."""
    found = number(value)
    return int(found) if found is not None and found == int(found) else None


def counts(values: Any) -> tuple[int, ...] | None:
    """A list of whole numbers, or None."""
    if not isinstance(values, list | tuple) or not values:
        return None
    found = [count(value) for value in values]
    return None if None in found else tuple(n for n in found if n is not None)


def nested_objects(value: Any) -> Iterator[Mapping[str, Any]]:
    """Every JSON object inside a value, outer ones first."""
    if isinstance(value, Mapping):
        yield value
        for inner in value.values():
            yield from nested_objects(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from nested_objects(inner)


def derived_steps(
    accepted: int | None, drafted: int | None, gamma: int | None, length: float | None
) -> tuple[int | None, str]:
    """Steps of a log that does not count them, and how they were found.

    Args:
        accepted: Accepted tokens.
        drafted: Drafted tokens.
        gamma: Drafted tokens of a full step.
        length: Mean tokens a step, correction or bonus included.
    """
    if accepted is None or length is None or length <= 1:
        return None, ""
    full = drafted / gamma if drafted and gamma else 0.5
    # Drafts may be short; they were all full if that agrees with the printed length.
    if full == int(full) and abs(1 + accepted / full - length) <= ROUNDING:
        return int(full), "drafted/gamma, which agrees with the mean length"
    return round(accepted / (length - 1)), "accepted/(mean length - 1), to the nearest"
