"""What must hold between the numbers of one record, whoever printed them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import msgspec

from specverify.adapters.logs.fields import ROUNDING
from specverify.adapters.logs.record import SpeculationRecord

__all__ = ["Identity", "broken", "check_identities"]


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """One identity: whether it holds, None where a number of it is missing.

    Attributes:
        name: The identity, as a formula.
        holds: Whether it does; None where the record cannot tell.
        text: The numbers.
    """

    name: str
    holds: bool | None
    text: str = ""


Found: TypeAlias = tuple[bool, str]


def check_identities(record: SpeculationRecord) -> tuple[Identity, ...]:
    """Check every identity on a record.

    Args:
        record: What an engine printed.

    Returns:
        One entry an identity, in a fixed order.
    """
    return tuple(_checked(name, check, record) for name, check in _IDENTITIES.items())


def broken(record: SpeculationRecord) -> tuple[Identity, ...]:
    """The identities that a record breaks."""
    return tuple(found for found in check_identities(record) if found.holds is False)


def _checked(
    name: str, check: Callable[[SpeculationRecord], Found | None], record: SpeculationRecord
) -> Identity:
    found = check(record)
    return (
        Identity(name=name, holds=None)
        if found is None
        else Identity(name=name, holds=found[0], text=found[1])
    )


def _steps(record: SpeculationRecord) -> Found | None:
    if record.histogram is None or record.steps is None or "histogram" in record.derived:
        return None  # differences of counters sum to the first counter whatever they are
    total = sum(record.histogram)
    return total == record.steps, f"histogram has {total} steps, {record.steps} are counted"


def _accepted(record: SpeculationRecord) -> Found | None:
    if record.histogram is None or record.accepted is None:
        return None
    total = sum(j * n for j, n in enumerate(record.histogram))
    return total == record.accepted, f"histogram has {total} accepted, {record.accepted} counted"


def _details(record: SpeculationRecord) -> Found | None:
    if record.step_accepted is None or record.step_drafted is None:
        return None
    told = (record.steps, record.accepted, record.drafted)
    lists = (len(record.step_accepted), sum(record.step_accepted), sum(record.step_drafted))
    fits = len(record.step_accepted) == len(record.step_drafted) and all(
        a <= d for a, d in zip(record.step_accepted, record.step_drafted, strict=False)
    )
    same = all(count in (None, own) for count, own in zip(told, lists, strict=True))
    return fits and same, f"steps, accepted, drafted: {lists} by step, {told} in all"


def _length(record: SpeculationRecord) -> Found | None:
    if record.mean_length is None or record.accepted is None or not record.steps:
        return None
    if record.source == "sglang-request" or "steps" in record.derived:
        return None  # SGLang's is tokens over steps; and steps found from it prove nothing
    expected = 1 + record.accepted / record.steps
    text = f"printed {record.mean_length:g}, 1 + accepted/steps is {expected:.4g}"
    return _near(record.mean_length, expected), text + _without_last(record, expected)


def _length_by_position(record: SpeculationRecord) -> Found | None:
    if record.mean_length is None or not record.marginal:
        return None
    expected = 1 + sum(record.marginal)
    text = f"printed {record.mean_length:g}, 1 + their sum is {expected:.4g}"
    holds = abs(record.mean_length - expected) <= ROUNDING + 5e-4 * len(record.marginal)
    return holds, text + _without_last(record, expected)


def _without_last(record: SpeculationRecord, expected: float) -> str:
    if record.mean_length is None or not _near(record.mean_length, expected - 1):
        return ""
    return ": the length without its last token, as older versions print it"


def _emitted(record: SpeculationRecord) -> Found | None:
    if record.source == "sglang-request" and record.emitted is not None and record.steps:
        if record.mean_length is None:
            return None
        expected = record.emitted / record.steps
        text = f"printed {record.mean_length:g}, tokens/steps is {expected:.4g}"
        return _near(record.mean_length, expected), text
    return None


def _rate(record: SpeculationRecord) -> Found | None:
    if record.rate is None or record.accepted is None or not record.drafted:
        return None
    expected = record.accepted / record.drafted
    text = f"printed {record.rate:g}, accepted/drafted is {expected:.4g}"
    return _near(record.rate, expected), text


def _bounds(record: SpeculationRecord) -> Found | None:
    if record.accepted is None or record.drafted is None:
        return None
    text = f"{record.accepted} accepted of {record.drafted}"
    return 0 <= record.accepted <= record.drafted, text


def _most(record: SpeculationRecord) -> Found | None:
    if None in (record.steps, record.gamma, record.drafted) or "steps" in record.derived:
        return None
    if "drafted" in record.derived.get("gamma", ""):
        return None
    most = record.steps * record.gamma  # type: ignore[operator]
    return record.drafted <= most, f"{record.drafted} drafted, at most {most:g}"  # type: ignore[operator]


def _rejected(record: SpeculationRecord) -> Found | None:
    if None in (record.accepted, record.drafted, record.rejected):
        return None
    total = record.accepted + record.rejected  # type: ignore[operator]
    return total == record.drafted, f"{total} accepted or rejected, {record.drafted} drafted"


def _falling(record: SpeculationRecord) -> Found | None:
    if not record.marginal:
        return None
    pairs = zip((1.0, *record.marginal), record.marginal, strict=False)
    falls = all(now <= before + 1e-12 for before, now in pairs) and record.marginal[-1] >= 0
    return falls, ", ".join(f"{value:.3f}" for value in record.marginal)


def _marginal_sum(record: SpeculationRecord) -> Found | None:
    if not record.marginal or record.accepted is None or not record.steps:
        return None
    if "steps" in record.derived:
        return None
    total, expected = sum(record.marginal), record.accepted / record.steps
    text = f"they sum to {total:.4g}, accepted/steps is {expected:.4g}"
    return abs(total - expected) <= ROUNDING * len(record.marginal), text


def _efficiency(record: SpeculationRecord) -> Found | None:
    if record.efficiency is None or not record.drafted or not record.gamma or not record.emitted:
        return None
    expected = record.emitted / (record.drafted / record.gamma * (record.gamma + 1))
    text = f"printed {record.efficiency:g}, emitted over the most possible is {expected:.4g}"
    return _near(record.efficiency, expected), text


def _near(first: float, second: float) -> bool:
    return abs(first - second) <= ROUNDING


_IDENTITIES: dict[str, Callable[[SpeculationRecord], Found | None]] = {
    "sum h[j] = steps": _steps,
    "sum j h[j] = accepted": _accepted,
    "by-step lists sum to the totals": _details,
    "mean length = 1 + accepted/steps": _length,
    "mean length = 1 + sum of marginal rates": _length_by_position,
    "mean length = tokens/steps": _emitted,
    "rate = accepted/drafted": _rate,
    "0 <= accepted <= drafted": _bounds,
    "drafted <= gamma steps": _most,
    "accepted + rejected = drafted": _rejected,
    "marginal rates never rise": _falling,
    "marginal rates sum to accepted/steps": _marginal_sum,
    "efficiency = emitted/(steps (gamma+1))": _efficiency,
}
