"""Elementary functions of a number or of a symbolic random real."""

from __future__ import annotations

import math
from typing import Any

from specverify.exact.reals import SymbolicReal
from specverify.exact.tape import refuse

__all__ = [
    "clamp",
    "divide",
    "exp",
    "floor",
    "isfinite",
    "isinf",
    "isnan",
    "log",
    "log1p",
    "log2",
    "maximum",
    "minimum",
    "power",
    "reciprocal",
    "sqrt",
    "square",
]


def log(value: Any) -> Any:
    """Natural logarithm; ``-inf`` at zero, NaN below, as the array libraries have it."""
    if type(value) is SymbolicReal:
        return value.log()
    return math.log(value) if value > 0 else (-math.inf if value == 0 else math.nan)


def log1p(value: Any) -> Any:
    """``log(1 + value)``."""
    return log(value + 1.0) if type(value) is SymbolicReal else math.log1p(value)


def log2(value: Any) -> Any:
    """Binary logarithm."""
    return log(value) / math.log(2.0)


def exp(value: Any) -> Any:
    """Exponential."""
    return value.exp() if type(value) is SymbolicReal else math.exp(value)


def sqrt(value: Any) -> Any:
    """Square root."""
    return power(value, 0.5)


def square(value: Any) -> Any:
    """Square."""
    return power(value, 2.0)


def floor(value: Any) -> Any:
    """Largest integer not above; branches."""
    return float(math.floor(value))


def power(base: Any, exponent: Any) -> Any:
    """Power with a certain exponent."""
    if type(exponent) is SymbolicReal:
        if type(base) is SymbolicReal:
            refuse("power", "of two random values")
        return exp(exponent * log(float(base)))
    return base.power(float(exponent)) if type(base) is SymbolicReal else base**exponent


def reciprocal(value: Any) -> Any:
    """``1 / value``."""
    return divide(1.0, value)


def divide(left: Any, right: Any) -> Any:
    """Quotient with IEEE's infinities and NaN."""
    if type(left) is SymbolicReal or type(right) is SymbolicReal:
        return left / right
    if right == 0:
        return math.nan if left == 0 or left != left else math.copysign(math.inf, left)
    return left / right


def clamp(value: Any, low: float | None, high: float | None) -> Any:
    """``value`` moved into ``[low, high]``."""
    if type(value) is SymbolicReal:
        return value.clamp(low, high)
    value = value if low is None or value != value else max(value, low)
    return value if high is None or value != value else min(value, high)


def maximum(left: Any, right: Any) -> Any:
    """The larger of a random and a certain value."""
    return _extremum(left, right, True)


def minimum(left: Any, right: Any) -> Any:
    """The smaller of a random and a certain value."""
    return _extremum(left, right, False)


def _extremum(left: Any, right: Any, largest: bool) -> Any:
    if type(left) is SymbolicReal and type(right) is SymbolicReal:
        refuse("maximum" if largest else "minimum", "of two random values")
    if type(right) is SymbolicReal:
        left, right = right, left
    if right != right:
        return right
    return clamp(left, float(right), None) if largest else clamp(left, None, float(right))


def isnan(value: Any) -> bool:
    """A random real is never NaN."""
    return type(value) is not SymbolicReal and math.isnan(value)


def isinf(value: Any) -> bool:
    """A random real is infinite with probability zero."""
    return type(value) is not SymbolicReal and math.isinf(value)


def isfinite(value: Any) -> bool:
    """A random real is finite with probability one."""
    return type(value) is SymbolicReal or math.isfinite(value)
