"""What a conformance check raises or warns.

::

    AssertionError
    └── ConformanceError       a check failed
        ├── NotLosslessError   the emitted law is not the target's, or the code misbehaved
        └── InconclusiveError  the budget ended before the question was settled
"""

from __future__ import annotations

__all__ = ["ConformanceError", "EfficiencyWarning", "InconclusiveError", "NotLosslessError"]


class ConformanceError(AssertionError):
    """An implementation fails a conformance check."""


class NotLosslessError(ConformanceError):
    """The emitted law is not the target's.

    Args:
        message: Diagnosis, smallest counterexample and the command that repeats it.
        tv: Total variation distance that was found, where there is one: exact, or a lower bound.
        position: First deviating position, 0-based, where known.
    """

    def __init__(
        self, message: str, *, tv: float | None = None, position: int | None = None
    ) -> None:
        super().__init__(message)
        self.tv = tv
        self.position = position


class InconclusiveError(ConformanceError):
    """The budget ended before losslessness was shown or refuted; silence is no pass."""


class EfficiencyWarning(UserWarning):
    """A lossless implementation emits another number of tokens than the standard rule."""
