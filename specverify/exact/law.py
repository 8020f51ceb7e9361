"""The exact law of a callable: run it once for every path of its random choices."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from specverify.errors import InvalidInputError
from specverify.exact.exploring import ROOT, Branch, Budget, Order, Tally, explore

__all__ = ["ExactLaw", "Order", "TvBounds", "enumerate_law", "tv_bounds"]

Outcome: TypeAlias = Hashable


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
    most itself. Exceptions are outcomes that the target never has. What integration may have
    misplaced widens both bounds.

    Args:
        law: The law found.
        target: Probability of each outcome.

    Returns:
        Lower and upper bound in [0, 1].
    """
    excess = [max(mass - target.get(key, 0.0), 0.0) for key, mass in law.probabilities.items()]
    seen = math.fsum(excess) + law.exception_mass
    high = seen + law.unexplored_mass + law.slack
    return TvBounds(min(max(seen - law.slack, 0.0), 1.0), min(high, 1.0))


def enumerate_law(
    fn: Callable[[], Any],
    *,
    max_paths: int = 1_000_000,
    max_seconds: float = 60.0,
    min_mass: float = 0.0,
    order: Order = "depth",
    check_twice: int = 16,
    workers: int = 1,
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
        workers: Processes. With more than one, ``fn`` must be importable by name; a finished law is
            the same bit for bit, and ``max_seconds`` holds for each process.

    Returns:
        The law, with the mass that the budget left unexplored.

    Raises:
        UnsupportedRandomness: If the code does something with a random value that the tracer does
            not understand, even when the code swallows the exception.
        ReplayDivergence: If two runs with the same choices differ.
        InvalidInputError: If ``order`` is unknown, ``workers`` not positive, or ``fn`` cannot be
            sent to workers.
    """
    if order not in ("depth", "best"):
        raise InvalidInputError("order", f"must be 'depth' or 'best', got {order!r}")
    if workers < 1:
        raise InvalidInputError("workers", f"must be at least 1, got {workers}")
    budget = Budget(
        max_paths=max_paths,
        max_seconds=max_seconds,
        min_mass=min_mass,
        order=order,
        check_twice=check_twice,
    )
    if workers == 1:
        return _law(*explore(fn, [ROOT], budget))
    from specverify.exact.workers import explore_with_workers

    return _law(*explore_with_workers(fn, budget, workers))


def _law(tally: Tally, left: Sequence[Branch]) -> ExactLaw:
    return ExactLaw(
        probabilities={key: math.fsum(masses) for key, masses in tally.outcomes.items()},
        paths=tally.paths,
        runs=tally.runs,
        unexplored_mass=math.fsum([*tally.dropped, *(mass for mass, _ in left)]),
        exceptions={key: math.fsum(masses) for key, masses in tally.exceptions.items()},
        slack=math.fsum(tally.slack),
        seconds=tally.seconds,
    )
