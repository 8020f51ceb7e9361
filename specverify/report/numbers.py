"""Numbers as people read them, the same in every rendering."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from specverify.results import Interval

__all__ = ["MISSING", "count", "decimal", "interval", "probability", "scalar"]

MISSING = "-"


def count(value: int | None) -> str:
    """A count with thousands separated: ``20,000``; ``-`` where there is none."""
    return MISSING if not value else f"{value:,}"


def decimal(value: float | None, *, digits: int = 3) -> str:
    """A distance or another number of ordinary size, with ``digits`` decimals."""
    return MISSING if value is None else f"{value:.{digits}f}"


def probability(value: float | None) -> str:
    """A p-value or another probability: three significant digits, small ones as ``1.2e-07``."""
    if value is None:
        return MISSING
    if value < 1e-300:  # underflow: never shown as an impossible zero
        return "<1e-300"
    return f"{value:.1e}" if value < 1e-3 else f"{value:.3g}"


def interval(value: Interval | None) -> str:
    """``estimate [low, high]``; ``<= high`` where the upper bound is all that is known.

    A value without any doubt, an exact one, stands alone and is never rounded to zero.
    """
    if value is None or (value.estimate is None and value.low is None and value.high is None):
        return MISSING
    if value.low is None and value.high is None:
        return decimal(value.estimate)
    if value.low is not None and value.low == value.high:
        return f"{value.low:.3g}"
    if value.estimate is None and value.low is None:
        return f"<= {decimal(value.high)}"
    bounds = f"[{decimal(value.low)}, {decimal(value.high)}]"
    return bounds if value.estimate is None else f"{decimal(value.estimate)} {bounds}"


def scalar(value: Any) -> str:
    """Any JSON value on one line."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, dict):
        return ", ".join(f"{key} {scalar(item)}" for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return " ".join(f"{x:.3g}" if isinstance(x, float) else scalar(x) for x in value) or MISSING
    return MISSING if value is None else str(value)
