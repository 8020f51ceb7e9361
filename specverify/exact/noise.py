"""One continuous base variable: a uniform of which only an interval is known."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from specverify.exact.tape import Tape, active_tape, refuse
from specverify.exact.tokens import UnreadToken

if TYPE_CHECKING:
    from specverify.exact.coupling import Coupling

__all__ = ["Noise"]


class Noise:
    """A uniform on (0, 1), narrowed to ``[low, high)`` by the comparisons made so far.

    Args:
        label: Name of the draw it belongs to.

    Attributes:
        pending: A token that will narrow this noise once it is read.
        spent: Whether it decided a race, after which its law is no longer uniform.
        coupling: What exponential races said of it; another such race may follow.
    """

    __slots__ = ("coupling", "high", "label", "low", "pending", "spent", "tape")

    def __init__(self, label: str) -> None:
        tape = active_tape()
        if tape is None:
            refuse(label, "drawn outside of an enumeration")
        self.tape: Tape = tape
        self.label = label
        self.low, self.high = 0.0, 1.0
        self.pending: UnreadToken | None = None
        self.spent = False
        self.coupling: Coupling | None = None

    def settle(self, operation: str, *, after_race: bool = False) -> None:
        """Make the interval current, or refuse where it no longer tells the law.

        Args:
            operation: What is about to be done.
            after_race: Whether it may follow an exponential race: it only asks what is possible, or
                is such a race itself.
        """
        if self.pending is not None:
            token, self.pending = self.pending, None
            token.read()
        if self.spent and not (after_race and self.coupling is not None):
            refuse(operation, f"noise of {self.label} already decided an argmax")
        if self.tape is not active_tape():
            refuse(operation, f"a value of {self.label} from an earlier run is used again")

    def is_below(self, threshold: float) -> bool:
        """Whether the uniform is under ``threshold``; branches where both are possible."""
        if self.pending is not None or self.spent or self.tape is not active_tape():
            self.settle("comparison")
        low, high = self.low, self.high
        if threshold <= low:
            return False
        if threshold >= high:
            return True
        share = (threshold - low) / (high - low)
        if 0.0 < share < 1.0:
            below = self.tape.choose((share, 1.0 - share), self.label) == 0
        else:
            below = share >= 1.0
        if below:
            self.high = threshold
        else:
            self.low = threshold
        return below

    def locate(self, thresholds: list[float]) -> UnreadToken:
        """Number of (increasing) thresholds at or under the uniform, not branched until read."""
        self.settle("search")
        low, high = self.low, self.high
        edges = [low, *(min(max(t, low), high) for t in thresholds), high]
        probs = tuple(max(right - left, 0.0) / (high - low) for left, right in pairwise(edges))

        def narrow(index: int) -> None:
            self.pending = None
            self.low, self.high = edges[index], edges[index + 1]

        token = UnreadToken(probs, self.label, narrow)
        if not token.was_read:
            self.pending = token
        return token

    def unread_side(self, threshold: float, *, below: bool) -> UnreadToken | bool:
        """Whether the uniform is below (or above) ``threshold``, not branched until read."""
        self.settle("comparison")
        low, high = self.low, self.high
        if not low < threshold < high:
            return (threshold >= high) == below
        share = (threshold - low) / (high - low)

        def narrow(bit: int) -> None:
            self.pending = None
            if bool(bit) == below:
                self.high = threshold
            else:
                self.low = threshold

        probs = (1.0 - share, share) if below else (share, 1.0 - share)
        token = UnreadToken(probs, self.label, narrow)
        if not token.was_read:
            self.pending = token
        return token
