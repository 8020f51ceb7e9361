"""A finite draw that nobody has looked at yet."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from specverify.exact.tape import Tape, active_tape, refuse

__all__ = ["UnreadToken", "draw_below", "draw_index", "normalised"]

# More values than a vocabulary has tokens: a seed, or a fraction in integers; not followed.
_MOST_VALUES = 2**17


def normalised(weights: Any, label: str) -> tuple[float, ...]:
    """Weights as probabilities; raises what the libraries raise on unusable ones.

    Raises:
        RuntimeError: If a weight is negative, infinite or NaN, or all are zero.
    """
    values = [float(weight) for weight in weights]
    total = sum(values)
    if not (0.0 < total < float("inf") and min(values) >= 0.0):
        raise RuntimeError(
            f"{label}: probability tensor contains either `inf`, `nan` or element < 0, "
            "or sums to zero"
        )
    return tuple(values) if total == 1.0 else tuple(value / total for value in values)


def draw_index(probs: tuple[float, ...], label: str) -> int:
    """Branch over a finite law now.

    Raises:
        UnsupportedRandomness: Outside of an enumeration.
    """
    tape = active_tape()
    if tape is None:
        refuse(label, "drawn outside of an enumeration")
    if 1.0 in probs:
        return probs.index(1.0)
    return tape.choose(probs, label)


def draw_below(count: int, label: str) -> int:
    """An integer from 0 to ``count - 1``, all alike; branches now.

    Raises:
        UnsupportedRandomness: If there are too many values to look at each.
    """
    if count > _MOST_VALUES:
        refuse(label, f"of {count} values (a seed?): too many to follow")
    return draw_index((1.0 / count,) * count, label)


class UnreadToken:
    """An integer with a known law: it branches when it is read, and not before.

    Args:
        probs: Probability of each index.
        label: Name of the draw.
        on_read: Told the index when it becomes known.
    """

    __slots__ = ("_find", "_probs", "_value", "label", "on_read", "tape")

    def __init__(
        self,
        probs: tuple[float, ...],
        label: str,
        on_read: Callable[[int], None] | None = None,
    ) -> None:
        tape = active_tape()
        if tape is None:
            refuse(label, "drawn outside of an enumeration")
        self.tape: Tape = tape
        self._probs, self.label, self.on_read = probs, label, on_read
        self._find: Callable[[], UnreadToken | int] | None = None
        self._value: int | None = None
        if 1.0 in probs:
            self._know(probs.index(1.0))

    @classmethod
    def deferred(cls, find: Callable[[], UnreadToken | int], label: str) -> UnreadToken:
        """A token of which not even the law is known before somebody asks for it.

        Args:
            find: Gives the token that it is, or the index; called once, at most.
            label: Name of the draw.
        """
        token = cls((), label)
        token._find = find
        return token

    @property
    def probs(self) -> tuple[float, ...]:
        """Probability of each index."""
        self.settle_law()
        return self._probs

    def settle_law(self) -> None:
        """Find out what a deferred token is."""
        if self._find is None:
            return
        find, self._find = self._find, None
        found = find()
        if isinstance(found, int):
            self._know(found)
        elif found.was_read:
            self._know(found.read())
        else:
            self._probs, self.on_read = found.probs, found._know
            before = found.on_read

            def both(index: int) -> None:
                self._know(index)
                if before is not None:
                    before(index)

            found.on_read = both

    @property
    def was_read(self) -> bool:
        """Whether the value is known by now."""
        return self._value is not None

    def read(self) -> int:
        """The value; branches on the first call."""
        self.settle_law()
        if self._value is None:
            if self.tape is not active_tape():
                refuse(self.label, "a token drawn in an earlier run is used again")
            self._know(self.tape.choose(self.probs, self.label))
        assert self._value is not None
        return self._value

    def branches(self) -> list[tuple[int, float]]:
        """Possible values with their probabilities."""
        self.settle_law()
        if self._value is not None:
            return [(self._value, 1.0)]
        return [(index, prob) for index, prob in enumerate(self.probs) if prob > 0.0]

    def _know(self, index: int) -> None:
        if self._value is not None:
            return
        self._value = index
        if self.on_read is not None:
            self.on_read(index)

    def __int__(self) -> int:
        return self.read()

    __index__ = __int__

    def __bool__(self) -> bool:
        return bool(self.read())
