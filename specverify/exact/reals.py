"""Symbolic random reals: monotone functions of one uniform, compared instead of evaluated."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, NoReturn

import numpy as np

from specverify.exact.forms import Form
from specverify.exact.noise import Noise
from specverify.exact.tape import active_tape, refuse
from specverify.exact.values import RandomValue

__all__ = ["SymbolicReal", "exponential", "gumbel", "uniform"]

_UNIFORM = Form("U", 0.0, 1.0)


class SymbolicReal(RandomValue):
    """A random value that code under trace handles as if it were a float.

    Arithmetic with numbers gives another symbolic real; comparing narrows the uniform and branches
    where both answers are possible. What has no exact meaning is refused.
    """

    __slots__ = ()

    # --- comparisons

    def _compare(self, other: Any, less: bool) -> Any:
        kind = type(other)
        if kind is float or kind is int or kind is np.float64:
            if other != other:
                return False
            return self.is_less(other) if less else not self.is_less(other)
        if kind is SymbolicReal:
            return _less_of_two(self, other) if less else _less_of_two(other, self)
        if _is_number(other):
            return self._compare(float(other), less)
        symbol = "less" if less else "greater"
        return _elementwise(self, other, symbol)

    def __lt__(self, other: Any) -> Any:
        return self._compare(other, True)

    def __le__(self, other: Any) -> Any:
        return self._compare(other, True)

    def __gt__(self, other: Any) -> Any:
        return self._compare(other, False)

    def __ge__(self, other: Any) -> Any:
        return self._compare(other, False)

    def __eq__(self, other: Any) -> Any:
        if isinstance(other, np.ndarray) or hasattr(other, "untyped_storage"):
            return _elementwise(self, other, "equal")
        return self.is_same(other)  # otherwise of probability zero

    def __ne__(self, other: Any) -> Any:
        return not self == other

    def is_same(self, other: Any) -> bool:
        """Whether both are one and the same random value."""
        return (
            type(other) is SymbolicReal
            and other.noise is self.noise
            and other.form == self.form
            and other.mirrored == self.mirrored
        )

    # --- python's operators

    def __add__(self, other: Any) -> Any:
        if type(other) is SymbolicReal:
            return _sum_of_two(self, other)
        return self.plus(float(other)) if _is_number(other) else _elementwise(self, other, "add")

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        if type(other) is SymbolicReal:
            return _sum_of_two(self, other.times(-1.0))
        if _is_number(other):
            return self.plus(-float(other))
        return _elementwise(self, other, "subtract")

    def __rsub__(self, other: Any) -> Any:
        return self.times(-1.0) + other

    def __mul__(self, other: Any) -> Any:
        if type(other) is SymbolicReal:
            if other.is_same(self):
                return self.power(2.0)
            refuse("multiplication", "product of two random values")
        return (
            self.times(float(other)) if _is_number(other) else _elementwise(self, other, "multiply")
        )

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Any:
        if type(other) is SymbolicReal:
            refuse("division", "quotient of two random values")
        if not _is_number(other):
            return _elementwise(self, other, "divide")
        return self.over(float(other))

    def __rtruediv__(self, other: Any) -> Any:
        return self.power(-1.0) * other

    def __pow__(self, other: Any) -> Any:
        return self.power(float(other))

    def __neg__(self) -> Any:
        return self.times(-1.0)

    def __pos__(self) -> SymbolicReal:
        return self

    def __floor__(self) -> int:
        return self.floor()

    def __int__(self) -> int:
        if self.support()[0] < 0:
            refuse("int", "of a random value that may be negative")
        return self.floor()

    __trunc__ = __int__

    # --- exits that would need a number

    def _no_number(self, *args: Any) -> NoReturn:
        refuse("an operation", "that needs the value of a random real")

    __abs__ = __round__ = __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = _no_number
    __divmod__ = __rdivmod__ = __complex__ = __index__ = _no_number

    def __hash__(self) -> int:
        refuse("hash", "of a random real")

    def __float__(self) -> float:
        from specverify.exact.lifting import request_lift

        request_lift("float")

    def __bool__(self) -> bool:
        return True  # zero has probability zero

    def __format__(self, spec: str) -> str:
        refuse("format", "a random real is written out")

    def __repr__(self) -> str:
        return f"<random {self.form.kind} of {self.noise.label}>"

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        refuse(f"attribute {name!r}", "is not defined for a symbolic random real")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        from specverify.exact.numpy_arrays import apply_ufunc

        return apply_ufunc(ufunc, method, inputs, kwargs)

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        cell = np.empty((), dtype=object)
        cell[()] = self
        return cell

    def item(self) -> SymbolicReal:
        """Itself: it is a scalar already."""
        return self

    @property  # type: ignore[misc]
    def __class__(self) -> type:  # isinstance(u, float) must hold, as for the real draw
        return float


def uniform(label: str, low: float = 0.0, high: float = 1.0) -> Any:
    """A fresh uniform on (low, high)."""
    if low == 0.0 and high == 1.0:
        return SymbolicReal(Noise(label), _UNIFORM)
    if low == high:
        return low
    return SymbolicReal(Noise(label), Form("U", low, high - low))


def exponential(label: str, scale: float = 1.0) -> SymbolicReal:
    """A fresh exponential with the given mean."""
    return SymbolicReal(Noise(label), Form("E", 0.0, scale))


def gumbel(label: str, loc: float = 0.0, scale: float = 1.0) -> SymbolicReal:
    """A fresh Gumbel variable (maximum)."""
    return SymbolicReal(Noise(label), Form("L", loc, -scale))


def _is_number(value: Any) -> bool:
    if type(value) is SymbolicReal:
        return False
    return isinstance(value, float | int | np.generic | Fraction)


def _sum_of_two(left: SymbolicReal, right: SymbolicReal) -> Any:
    one, two = left.form, right.form
    same = left.noise is right.noise and left.mirrored == right.mirrored
    if same and one.kind == two.kind and one.kind in "UEL" and not (one.chain or two.chain):
        scale = one.scale + two.scale
        if scale == 0:
            return one.shift + two.shift
        return left._with(Form(one.kind, one.shift + two.shift, scale))
    refuse("addition", "sum of two random values")


def _less_of_two(left: SymbolicReal, right: SymbolicReal) -> bool:
    if left.noise is right.noise:
        return bool((left - right) < 0)
    from specverify.exact.races import winner

    return winner([left, right], "comparison") == 1


def _elementwise(value: SymbolicReal, other: Any, operation: str) -> Any:
    """``value (operation) other`` for an array or tensor."""
    if hasattr(other, "untyped_storage"):
        from specverify.exact.torch_ops import symbolic_scalar

        return getattr(symbolic_scalar(value, other), _METHODS[operation])(other)
    if isinstance(other, np.ndarray):
        return value.__array_ufunc__(getattr(np, operation), "__call__", value, other)
    if active_tape() is None:
        return NotImplemented
    refuse(operation, f"of a random value and a {type(other).__name__}")


_METHODS = {
    "add": "__add__",
    "subtract": "__sub__",
    "multiply": "__mul__",
    "divide": "__truediv__",
    "less": "__lt__",
    "greater": "__gt__",
    "equal": "__eq__",
}
