"""Alternating runs of several jobs, medians with quartiles, and fitted exponents."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

__all__ = [
    "Asked",
    "Clock",
    "Job",
    "Measurement",
    "Size",
    "Spread",
    "alternate",
    "exponent",
    "ratio",
]

Job: TypeAlias = Callable[[], object]
Clock: TypeAlias = Callable[[], float]


class Spread(NamedTuple):
    """Median and quartiles of a number of runs."""

    median: float
    low: float
    high: float
    runs: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Of at least one value."""
        if len(values) == 1:
            return cls(values[0], values[0], values[0], 1)
        low, median, high = statistics.quantiles(values, n=4, method="inclusive")
        return cls(median, low, high, len(values))


class Asked(NamedTuple):
    """A mark, what was measured, and whether that is enough."""

    mark: str
    measured: str
    holds: bool


@dataclass(frozen=True)
class Size:
    """How much is measured.

    Attributes:
        quick: Tiny sizes, to see that everything runs.
        thorough: Larger vocabularies and batches as well.
    """

    quick: bool = False
    thorough: bool = False

    @property
    def runs(self) -> int:
        """Alternating runs of each job."""
        return 3 if self.quick else 7


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """One setting: every side's cost or rate, and ratios of the first to the others.

    Attributes:
        what: The setting.
        unit: Unit of the sides' values.
        sides: Value of each side, by name; ours first.
        ratios: Ratios by name.
        asked: Marks that this setting has to reach.
        note: What else is to be known.
    """

    what: str
    unit: str
    sides: Mapping[str, Spread]
    ratios: Mapping[str, Spread] = field(default_factory=dict)
    asked: Sequence[Asked] = ()
    note: str = ""

    def record(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "what": self.what,
            "unit": self.unit,
            "sides": {name: side._asdict() for name, side in self.sides.items()},
            "ratios": {name: ratio._asdict() for name, ratio in self.ratios.items()},
            "asked": [mark._asdict() for mark in self.asked],
            "note": self.note,
        }


def alternate(
    jobs: Mapping[str, Job], runs: int, *, clock: Clock = time.thread_time
) -> dict[str, list[float]]:
    """Seconds of every job, ``runs`` times in turn (A B A B), after one run of each unmeasured.

    Args:
        jobs: What to run, by name.
        runs: Runs of each.
        clock: Seconds; CPU seconds of this thread by default, which other programs hardly disturb.
    """
    for job in jobs.values():
        job()
    seconds: dict[str, list[float]] = {name: [] for name in jobs}
    for _ in range(runs):
        for name, job in jobs.items():
            start = clock()
            job()
            seconds[name].append(clock() - start)
    return seconds


def ratio(above: Sequence[float], below: Sequence[float]) -> Spread:
    """Spread of the ratios of runs that were next to each other."""
    pairs = zip(above, below, strict=True)
    return Spread.of([over / max(under, 1e-9) for over, under in pairs])


def exponent(sizes: Sequence[float], costs: Sequence[float]) -> float:
    """Least-squares slope of log cost against log size."""
    slope = statistics.linear_regression(
        [math.log(size) for size in sizes], [math.log(max(cost, 1e-9)) for cost in costs]
    ).slope
    return float(slope)
