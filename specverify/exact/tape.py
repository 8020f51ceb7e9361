"""The choice tape: one run of the audited code, with every finite choice recorded or replayed."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple, NoReturn

from specverify.errors import SpecVerifyError, UnsupportedRandomness

__all__ = [
    "ReplayDivergence",
    "Step",
    "Tape",
    "activate",
    "active_tape",
    "audited_location",
    "refuse",
]

# Frames that belong to the tracer or to the libraries underneath, not to the audited code.
_OWN = str(Path(__file__).resolve().parent)
_LIBRARIES = ("/torch/", "/numpy/", "/random.py", "/contextlib.py", "/functools.py")
_SUM_TOLERANCE = 1e-6
_MOST_CHOICES = 3_000
"""A loop such as rejection sampling has no longest path."""


class ReplayDivergence(SpecVerifyError):
    """A replayed path met other choices than when it was recorded.

    The code keeps state between runs, or draws from a source that the tracer does not see.
    """


class Step(NamedTuple):
    """One choice of a path: what was asked, the probabilities, and which branch was taken."""

    label: str
    probs: tuple[float, ...]
    pick: int


class Tape:
    """Choices of one run: replays ``prefix``, then takes the likeliest branch of each new choice.

    Args:
        prefix: Steps to replay.

    Attributes:
        steps: Every choice of the run so far, replayed or new.
        mass: Probability of the choices so far.
        refusal: The first refusal, kept even when the audited code swallows the exception.
        slack: Probability that a numerical approximation may have misplaced.
    """

    __slots__ = ("mass", "prefix", "refusal", "slack", "steps", "stream_states")

    def __init__(self, prefix: Sequence[Step] = ()) -> None:
        self.prefix = prefix
        self.steps: list[Step] = []
        self.mass = 1.0
        self.slack = 0.0
        self.refusal: UnsupportedRandomness | None = None
        self.stream_states: dict[int, tuple[Any, int, bytes]] = {}

    def choose(self, probs: tuple[float, ...], label: str) -> int:
        """Branch over ``range(len(probs))``; branches of probability zero are never taken.

        Raises:
            UnsupportedRandomness: If ``probs`` is not a distribution.
            ReplayDivergence: If a replayed run asks something else than the recorded one.
        """
        position = len(self.steps)
        if position < len(self.prefix):
            step = self.prefix[position]
            if step.label != label or step.probs != probs:
                raise ReplayDivergence(
                    f"choice {position}: recorded {step.label} {step.probs}, "
                    f"replayed {label} {probs}"
                )
        else:
            if position >= _MOST_CHOICES:
                refuse(label, f"more than {_MOST_CHOICES} choices: a loop that chance alone ends")
            step = Step(label, probs, probs.index(max(probs)))
            if not (abs(sum(probs) - 1.0) <= _SUM_TOLERANCE and min(probs) >= 0.0):
                refuse(label, f"not a distribution, sums to {sum(probs)!r}")
        self.steps.append(step)
        self.mass *= probs[step.pick]
        return step.pick

    def flip(self, prob: float, label: str) -> bool:
        """Branch over true (probability ``prob``) and false."""
        return self.choose((prob, 1.0 - prob), label) == 0

    def siblings(self) -> Iterator[tuple[float, tuple[Step, ...]]]:
        """The branches that this run left open, as ``(mass, prefix)``, the deepest last."""
        mass = 1.0
        for step in self.steps[: len(self.prefix)]:
            mass *= step.probs[step.pick]
        for position in range(len(self.prefix), len(self.steps)):
            label, probs, pick = self.steps[position]
            head = tuple(self.steps[:position])
            for other, prob in enumerate(probs):
                if other != pick and prob > 0.0:
                    yield mass * prob, (*head, Step(label, probs, other))
            mass *= probs[pick]


_active: Tape | None = None


def active_tape() -> Tape | None:
    """The tape of the run in progress, if any."""
    return _active


def activate(tape: Tape | None) -> Tape | None:
    """Make ``tape`` the active one; gives back the one before."""
    global _active
    outer, _active = _active, tape
    return outer


def audited_location() -> str:
    """``file:line`` of the innermost frame that is neither the tracer's nor a library's."""
    frame: FrameType | None = sys._getframe(1)
    innermost = "unknown:0"
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith(_OWN):
            innermost = innermost if innermost != "unknown:0" else f"{name}:{frame.f_lineno}"
            if not any(part in name for part in _LIBRARIES) and not name.startswith("<"):
                return f"{name}:{frame.f_lineno}"
        frame = frame.f_back
    return innermost


def refuse(operation: str, reason: str) -> NoReturn:
    """Refuse an operation: raise, and remember it on the tape in case the code swallows it."""
    error = UnsupportedRandomness(operation, audited_location(), reason)
    if _active is not None and _active.refusal is None:
        _active.refusal = error
    raise error
