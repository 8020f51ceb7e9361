"""Lines of vLLM's log: ``SpecDecoding metrics: ...`` and, older, ``Speculative metrics: ...``."""

from __future__ import annotations

from specverify.adapters.logs.fields import count, derived_steps, named_numbers
from specverify.adapters.logs.record import SpeculationRecord

__all__ = ["read_line"]

_NEW, _OLD = "SpecDecoding metrics", "Speculative metrics"


def read_line(line: str, label: str) -> SpeculationRecord | None:
    """Read one line; None if it is of another kind."""
    if _NEW in line:
        return _new(line.partition(_NEW)[2].lstrip(": "), label)
    if _OLD in line:
        return _old(line.partition(_OLD)[2].lstrip(": "), label)
    return None


def _new(text: str, label: str) -> SpeculationRecord:
    found = named_numbers(text)
    marginal = found.get("per-position acceptance rate")
    gamma = len(marginal) if marginal else None
    known = tuple(value for value in marginal or () if value is not None)
    accepted, drafted = count(_first(found, "accepted")), count(_first(found, "drafted"))
    length = _first(found, "mean acceptance length")
    steps, how = derived_steps(accepted, drafted, gamma, length)
    return SpeculationRecord(
        source="vllm-log",
        label=label,
        steps=steps,
        gamma=gamma,
        drafted=drafted,
        accepted=accepted,
        marginal=known if gamma and len(known) == gamma else None,
        mean_length=length,
        rate=_first(found, "avg draft acceptance rate"),
        derived=({"steps": how} if steps else {})
        | ({"gamma": "number of positions"} if gamma else {}),
        cannot_tell=("the number of steps", "histogram of accepted tokens"),
    )


def _old(text: str, label: str) -> SpeculationRecord:
    found = named_numbers(text)
    gamma = count(_first(found, "number of speculative tokens"))
    drafted = count(_first(found, "number of draft tokens"))
    return SpeculationRecord(
        source="vllm-log-old",
        label=label,
        steps=_steps(drafted, gamma),
        gamma=gamma,
        drafted=drafted,
        accepted=count(_first(found, "number of accepted tokens")),
        emitted=count(_first(found, "number of emitted tokens")),
        rate=_first(found, "draft acceptance rate"),
        efficiency=_first(found, "system efficiency"),
        derived={"steps": "drafted/gamma, if every step drafted gamma tokens"} if gamma else {},
        cannot_tell=("the number of steps", "acceptance by position"),
    )


def _steps(drafted: int | None, gamma: int | None) -> int | None:
    if drafted is None or not gamma or drafted % gamma:
        return None
    return drafted // gamma or None


def _first(found: dict[str, list[float | None]], key: str) -> float | None:
    return found.get(key, [None])[0]
