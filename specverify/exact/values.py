"""Monotone functions of one uniform as values: their range, comparisons and arithmetic.

Nothing here is a python operator; those are in :mod:`specverify.exact.reals`.
"""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np

from specverify.exact import algebra
from specverify.exact.forms import Form, forward, increasing, inverse
from specverify.exact.noise import Noise
from specverify.exact.tape import refuse

__all__ = ["RandomValue"]

# A mass this small is booked as slack instead of being branched on.
_NEGLIGIBLE = 1e-9


class RandomValue:
    """A random real ``form(v)`` where ``v`` is a uniform, or one minus it.

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
        self.noise.settle("support", after_race=True)
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

    def floor(self) -> int:
        """Largest integer not above; branches."""
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

    def log(self) -> Self:
        """Natural logarithm, for values that cannot be negative."""
        if self.sign() != 1:
            self._book_negative()
        form, mirror = algebra.log(self.form)
        return type(self)(self.noise, form, self.mirrored != mirror)

    def exp(self) -> Self:
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
            if bound is None or type(value) is not type(self):
                continue
            smallest, largest = value.support()
            below = operation == "raise_to"
            if (bound <= smallest) if below else (bound >= largest):
                continue
            if (bound >= largest) if below else (bound <= smallest):
                return float(bound)
            value = value._with(algebra.then(value.form, operation, float(bound)))
        return value

    def _with(self, form: Form) -> Self:
        return type(self)(self.noise, form, self.mirrored)
