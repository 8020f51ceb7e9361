"""The exact law of a callable: run it once for every path of its random choices."""

from __future__ import annotations

import heapq
import math
import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

from specverify.errors import InvalidInputError
from specverify.exact.interception import interception
from specverify.exact.outcomes import Mixture
from specverify.exact.paths import run_again, run_path
from specverify.exact.tape import Step, Tape

__all__ = ["ExactLaw", "TvBounds", "enumerate_law", "tv_bounds"]

Outcome: TypeAlias = Hashable
Order: TypeAlias = Literal["depth", "best"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactLaw:
    """What a callable returns, with which probability.

    Attributes:
        probabilities: Mass of each outcome; sequences and arrays are outcomes as (nested) tuples.
        paths: Random paths that were accounted for.
        runs: How often the callable ran; fewer than ``paths`` where a draw was never looked at.
        unexplored_mass: Probability of the paths that the budget left out.
        exceptions: Mass of each exception, by ``"Type: message"``; an exception is an outcome.
        slack: Probability that numerical integration may have misplaced.
        seconds: CPU time.
    """

    probabilities: Mapping[Any, float]
    paths: int
    runs: int
    unexplored_mass: float
    exceptions: Mapping[str, float]
    slack: float
    seconds: float

    @property
    def complete(self) -> bool:
        """Whether every path was explored."""
        return self.unexplored_mass == 0.0

    @property
    def exception_mass(self) -> float:
        """Probability that the callable raises."""
        return math.fsum(self.exceptions.values())

    def map(self, function: Callable[[Any], Outcome]) -> ExactLaw:
        """The law of ``function`` of the outcome."""
        image: dict[Any, list[float]] = {}
        for outcome, mass in self.probabilities.items():
            image.setdefault(function(outcome), []).append(mass)
        return ExactLaw(
            probabilities={outcome: math.fsum(masses) for outcome, masses in image.items()},
            paths=self.paths,
            runs=self.runs,
            unexplored_mass=self.unexplored_mass,
            exceptions=self.exceptions,
            slack=self.slack,
            seconds=self.seconds,
        )


class TvBounds(NamedTuple):
    """Certified bounds of a total variation distance; equal when every path was explored."""

    low: float
    high: float


def tv_bounds(law: ExactLaw, target: Mapping[Any, float]) -> TvBounds:
    """Bounds of the total variation distance between a (perhaps partly explored) law and a target.

    The explored mass ``m`` gives ``sum max(m - target, 0) <= TV``, and unexplored mass can add at
    most itself. Exceptions are outcomes that the target never has.

    Args:
        law: The law found.
        target: Probability of each outcome.

    Returns:
        Lower and upper bound in [0, 1].
    """
    excess = [max(mass - target.get(key, 0.0), 0.0) for key, mass in law.probabilities.items()]
    low = math.fsum(excess) + law.exception_mass
    return TvBounds(min(max(low - law.slack, 0.0), 1.0), min(low + law.unexplored_mass, 1.0))


@dataclass(slots=True)
class _Tally:
    """Masses as they come in; summed exactly at the end."""

    outcomes: dict[Any, list[float]] = field(default_factory=dict)
    exceptions: dict[str, list[float]] = field(default_factory=dict)
    paths: int = 0
    runs: int = 0
    slack: float = 0.0
    dropped: list[float] = field(default_factory=list)

    def add(self, tape: Tape, result: Mixture | str) -> None:
        self.runs += 1
        self.slack += tape.slack * tape.mass
        if isinstance(result, str):
            self.paths += 1
            self.exceptions.setdefault(result, []).append(tape.mass)
            return
        self.paths += len(result)
        for outcome, weight in result:
            self.outcomes.setdefault(outcome, []).append(tape.mass * weight)

    def law(self, seconds: float) -> ExactLaw:
        return ExactLaw(
            probabilities={key: math.fsum(masses) for key, masses in self.outcomes.items()},
            paths=self.paths,
            runs=self.runs,
            unexplored_mass=math.fsum(self.dropped),
            exceptions={key: math.fsum(masses) for key, masses in self.exceptions.items()},
            slack=self.slack,
            seconds=seconds,
        )


def enumerate_law(
    fn: Callable[[], Any],
    *,
    max_paths: int = 1_000_000,
    max_seconds: float = 60.0,
    min_mass: float = 0.0,
    order: Order = "depth",
    check_twice: int = 16,
) -> ExactLaw:
    """Exact law of ``fn()`` over all its random choices.

    ``fn`` runs once per path. Draws of numpy, of python's ``random`` and (where torch is loaded) of
    torch are intercepted: finite draws branch, continuous ones stay symbolic until they are
    compared. Uniforms are idealised as reals in (0, 1).

    Args:
        fn: The callable; it must keep no state between calls. It takes its generator from a
            closure: any ``torch.Generator``, or ``specverify.exact.TracedGenerator()`` for numpy.
        max_paths: Stop after this many paths.
        max_seconds: Stop after this much CPU time, in seconds.
        min_mass: Leave branches less probable than this unexplored.
        order: ``"depth"`` first needs least memory; ``"best"`` explores the likeliest branch first
            and so gives the tightest bounds under a budget.
        check_twice: Run the first and every so-many-th path a second time, to catch hidden state
            and draws that were not intercepted; 0 switches it off.

    Returns:
        The law, with the mass that the budget left unexplored.

    Raises:
        UnsupportedRandomness: If the code does something with a random value that the tracer does
            not understand, even when the code swallows the exception.
        ReplayDivergence: If two runs with the same choices differ.
        InvalidInputError: If ``order`` is unknown.
    """
    if order not in ("depth", "best"):
        raise InvalidInputError("order", f"must be 'depth' or 'best', got {order!r}")
    tally = _Tally()
    start = time.process_time()
    frontier: list[tuple[float, int, tuple[Step, ...]]] = [(-1.0, 0, ())]
    serial = 0
    with interception(fn) as session:
        while frontier:
            if tally.paths >= max_paths or time.process_time() - start > max_seconds:
                tally.dropped.extend(-item[0] for item in frontier)
                break
            prefix = (heapq.heappop(frontier) if order == "best" else frontier.pop())[2]
            tape, result = run_path(fn, prefix, session)
            if check_twice and tally.runs % check_twice == 0:
                run_again(fn, tape, result, session)
            tally.add(tape, result)
            for mass, sibling in tape.siblings():
                serial += 1
                if mass < min_mass:
                    tally.dropped.append(mass)
                elif order == "best":
                    heapq.heappush(frontier, (-mass, serial, sibling))
                else:
                    frontier.append((-mass, serial, sibling))
    return tally.law(time.process_time() - start)
