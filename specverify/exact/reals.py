"""Symbolic random reals: monotone functions of one uniform, compared instead of evaluated."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, NoReturn

import numpy as np

from specverify.exact import algebra
from specverify.exact.forms import Form, forward, increasing, inverse
from specverify.exact.noise import Noise
from specverify.exact.tape import active_tape, refuse

__all__ = ["SymbolicReal", "exponential", "gumbel", "uniform"]

_UNIFORM = Form("U", 0.0, 1.0)
# A mass this small is booked as slack instead of being branched on.
_NEGLIGIBLE = 1e-9


class SymbolicReal:
    """A random real ``form(v)`` where ``v`` is a uniform, or one minus it.

    Arithmetic with numbers gives another symbolic real; comparing narrows the uniform and branches
    where both answers are possible. What has no exact meaning is refused.

    Args:
        noise: The uniform underneath.
        form: Monotone function of it.
        mirrored: Whether the form applies to one minus the uniform.
    """

    __slots__ = ("form", "mirrored", "noise")

    def __init__(self, noise: Noise, form: Form, mirrored: bool = False) -> None:
        self.noise, self.form, self.mirrored = noise, form, mirrored

    # --- what the value may be

    def support(self) -> tuple[float, float]:
        """Smallest and largest possible value."""
        self.noise.settle("support")
        low, high = self.interval()
        ends = forward(self.form, np.array([low, high]))
        return float(np.nanmin(ends)), float(np.nanmax(ends))

    def interval(self) -> tuple[float, float]:
        """Interval of ``v``."""
        low, high = self.noise.low, self.noise.high
        return (1.0 - high, 1.0 - low) if self.mirrored else (low, high)

    def sign(self) -> int:
        """1 or -1 where the sign is certain, else 0."""
        low, high = self.support()
        return 1 if low >= 0 else -1 if high <= 0 else 0

    # --- comparisons

    def is_less(self, bound: float) -> bool:
        """Whether the value is under ``bound``: branches where both are possible."""
        bound = float(bound)  # a numpy scalar would make every mass one, and slow
        if bound != bound:
            return False
        threshold, rising = self._threshold(bound)
        below = self.noise.is_below(threshold)
        return below if rising else not below

    def _threshold(self, bound: float) -> tuple[float, bool]:
        """Where the uniform makes the value equal ``bound``, and whether it rises with it."""
        form = self.form
        if form.kind == "U" and not form.chain:
            threshold = (bound - form.shift) / form.scale
            rising = form.scale > 0
        else:
            self._refuse_atom(bound)
            threshold = float(inverse(form, bound))
            rising = increasing(form)
        return (1.0 - threshold, not rising) if self.mirrored else (threshold, rising)

    def unread_less(self, bound: float) -> Any:
        """``self < bound`` as a bit that branches only when it is read."""
        return self._unread(bound, True)

    def unread_greater(self, bound: float) -> Any:
        """``self > bound`` as a bit that branches only when it is read."""
        return self._unread(bound, False)

    def _unread(self, bound: float, less: bool) -> Any:
        if bound != bound:
            return False
        threshold, rising = self._threshold(bound)
        return self.noise.unread_side(threshold, below=(rising == less))

    def _refuse_atom(self, bound: float) -> None:
        if any(step[0] in ("raise_to", "lower_to") for step in self.form.chain):
            ends = forward(self.form, np.array([0.0, 1.0]))
            if bound in ends:
                refuse("comparison", "a clamped random value is compared with its own bound")

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

    # --- arithmetic with numbers

    def plus(self, constant: float) -> Any:
        """``self + constant``."""
        if constant == 0:
            return self
        return (
            self._with(algebra.plus(self.form, constant)) if math.isfinite(constant) else constant
        )

    def times(self, constant: float) -> Any:
        """``self * constant``."""
        if constant == 1:
            return self
        if constant == 0:
            return 0.0
        if not math.isfinite(constant):
            refuse("multiplication", f"a random value is multiplied by {constant}")
        return self._with(algebra.times(self.form, constant))

    def over(self, divisor: float) -> Any:
        """``self / divisor``, with IEEE's infinities."""
        if divisor == 0:
            sign = self.sign()
            if sign == 0:
                refuse("division", "a random value of unknown sign is divided by zero")
            return math.copysign(math.inf, sign * math.copysign(1.0, divisor))
        if not math.isfinite(divisor):
            return 0.0 if math.isinf(divisor) else math.nan
        return self._with(algebra.over(self.form, divisor))

    def power(self, exponent: float) -> Any:
        """``self ** exponent``, for values of one sign."""
        if exponent == 1:
            return self
        if exponent == 0:
            return 1.0
        sign = self.sign()
        if sign == 0 or (sign < 0 and exponent != -1):
            refuse("power", "the base may be negative")
        if sign < 0:
            return self.times(-1.0).power(-1.0).times(-1.0)
        return self._with(algebra.power(self.form, exponent))

    def log(self) -> SymbolicReal:
        """Natural logarithm, for values that cannot be negative."""
        if self.sign() != 1:
            self._book_negative()
        form, mirror = algebra.log(self.form)
        return SymbolicReal(self.noise, form, self.mirrored != mirror)

    def exp(self) -> SymbolicReal:
        """Exponential."""
        return self._with(algebra.exp(self.form))

    def _book_negative(self) -> None:
        """Rounding can take a positive value below zero with a mass too small to matter."""
        low, high = self.interval()
        zero = min(max(float(inverse(self.form, 0.0)), low), high)
        mass = ((zero - low) if increasing(self.form) else (high - zero)) / (high - low)
        if mass > _NEGLIGIBLE:
            refuse("log", f"of a random value that is negative with probability {mass:.3g}")
        self.noise.tape.slack += mass

    def clamp(self, low: float | None = None, high: float | None = None) -> Any:
        """The value moved into ``[low, high]``."""
        value: Any = self
        for operation, bound in (("raise_to", low), ("lower_to", high)):
            if bound is None or type(value) is not SymbolicReal:
                continue
            smallest, largest = value.support()
            below = operation == "raise_to"
            if (bound <= smallest) if below else (bound >= largest):
                continue
            if (bound >= largest) if below else (bound <= smallest):
                return float(bound)
            value = value._with(algebra.then(value.form, operation, float(bound)))
        return value

    def _with(self, form: Form) -> SymbolicReal:
        return SymbolicReal(self.noise, form, self.mirrored)

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
        low, high = self.support()
        if not (math.isfinite(low) and high - low <= 1e6):
            refuse("floor", "of an unbounded random value")
        first, last = math.floor(low), math.ceil(high) - 1
        if first == last:
            return first
        cuts = [float(inverse(self.form, float(k))) for k in range(first + 1, last + 1)]
        index = self.index_among(cuts)
        return first + index

    def index_among(self, cuts: list[float]) -> int:
        """Number of values under ours, given their preimages (in the order of the values)."""
        if self.mirrored:
            cuts = [1.0 - cut for cut in cuts]
        rising = increasing(self.form) != self.mirrored
        found = self.noise.locate(cuts if rising else cuts[::-1]).read()
        return found if rising else len(cuts) - found

    def __int__(self) -> int:
        if self.support()[0] < 0:
            refuse("int", "of a random value that may be negative")
        return self.__floor__()

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
