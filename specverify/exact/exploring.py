"""Which branch is run next, under which budget, and the masses that come in."""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from specverify.exact.interception import interception
from specverify.exact.outcomes import Mixture
from specverify.exact.paths import run_again, run_path
from specverify.exact.tape import Step, Tape

__all__ = ["ROOT", "Branch", "Budget", "Order", "Tally", "explore"]

Order: TypeAlias = Literal["depth", "best"]
Branch: TypeAlias = tuple[float, tuple[Step, ...]]
"""Mass of a branch, and the choices that lead to it."""

ROOT: Branch = (1.0, ())


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """How far to go; see :func:`specverify.exact.enumerate_law`."""

    max_paths: int
    max_seconds: float
    min_mass: float
    order: Order
    check_twice: int


@dataclass(slots=True)
class Tally:
    """Masses as they come in; summed exactly at the end, so that their order does not matter."""

    outcomes: dict[Any, list[float]] = field(default_factory=dict)
    exceptions: dict[str, list[float]] = field(default_factory=dict)
    paths: int = 0
    runs: int = 0
    slack: list[float] = field(default_factory=list)
    dropped: list[float] = field(default_factory=list)
    seconds: float = 0.0

    def add(self, tape: Tape, result: Mixture | str) -> None:
        """Count one run."""
        self.runs += 1
        if tape.slack:
            self.slack.append(tape.slack * tape.mass)
        if isinstance(result, str):
            self.paths += 1
            self.exceptions.setdefault(result, []).append(tape.mass)
            return
        self.paths += len(result)
        for outcome, weight in result:
            self.outcomes.setdefault(outcome, []).append(tape.mass * weight)

    def merge(self, other: Tally) -> None:
        """Count everything that another process counted."""
        for mine, its in ((self.outcomes, other.outcomes), (self.exceptions, other.exceptions)):
            for key, masses in its.items():
                mine.setdefault(key, []).extend(masses)
        self.paths, self.runs = self.paths + other.paths, self.runs + other.runs
        self.slack += other.slack
        self.dropped += other.dropped
        self.seconds += other.seconds


def explore(
    fn: Callable[[], Any], branches: Iterable[Branch], budget: Budget
) -> tuple[Tally, list[Branch]]:
    """Run ``fn`` down the given branches and whatever they lead to.

    Args:
        fn: The callable.
        branches: Where to begin.
        budget: When to stop.

    Returns:
        What was found, and the branches that the budget left.

    Raises:
        UnsupportedRandomness: If the code does something that the tracer does not understand.
        ReplayDivergence: If two runs with the same choices differ.
    """
    tally, start = Tally(), time.process_time()
    frontier = _Frontier(branches, best=budget.order == "best")
    with interception(fn) as session:
        while frontier and tally.paths < budget.max_paths:
            if time.process_time() - start > budget.max_seconds:
                break
            tape, result = run_path(fn, frontier.pop(), session)
            if budget.check_twice and tally.runs % budget.check_twice == 0:
                run_again(fn, tape, result, session)
            tally.add(tape, result)
            for mass, prefix in tape.siblings():
                if mass < budget.min_mass:
                    tally.dropped.append(mass)
                else:
                    frontier.push(mass, prefix)
    tally.seconds = time.process_time() - start
    return tally, frontier.left()


class _Frontier:
    """Branches still to be run: the last one first, or the likeliest."""

    def __init__(self, branches: Iterable[Branch], *, best: bool) -> None:
        self._best = best
        self._serial = 0
        self._items: list[tuple[float, int, tuple[Step, ...]]] = []
        for mass, prefix in branches:
            self.push(mass, prefix)

    def __len__(self) -> int:
        return len(self._items)

    def push(self, mass: float, prefix: tuple[Step, ...]) -> None:
        self._serial += 1
        item = (-mass, self._serial, prefix)
        if self._best:
            heapq.heappush(self._items, item)
        else:
            self._items.append(item)

    def pop(self) -> tuple[Step, ...]:
        item = heapq.heappop(self._items) if self._best else self._items.pop()
        return item[2]

    def left(self) -> list[Branch]:
        return [(-mass, prefix) for mass, _, prefix in self._items]
