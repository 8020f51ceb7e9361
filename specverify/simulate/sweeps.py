"""Grids of settings, spread over processes or machines; the rows do not depend on either.

Each point draws from a child of one seed that its place in the grid alone decides. Finished points
go to an append-only ledger, so that a sweep that was killed goes on where it stopped.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, as_completed
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from specverify.simulate.ledger import Ledger
from specverify.theory.validation import checked_count

__all__ = ["CHUNK", "Point", "Progress", "Row", "Task", "grid", "point_generator", "run_sweep"]

Point: TypeAlias = Mapping[str, Any]
Row: TypeAlias = dict[str, Any]
Task: TypeAlias = Callable[[Point, np.random.Generator], Row]
"""Takes a point and its generator; gives JSON values. It travels by its module and name."""
Progress: TypeAlias = Callable[[int, int], None]
"""Takes the number of finished points and of all."""

CHUNK = 50
"""Points handed to an executor at once, unless told otherwise."""


def grid(axes: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Every combination of the axes' values, the last axis fastest."""
    return [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]


def point_generator(seed: int, index: int) -> np.random.Generator:
    """The generator of a point: child number ``index`` of the seed."""
    # What SeedSequence(seed).spawn(n)[index] gives, without spawning those before it.
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(index,)))


def run_sweep(
    task: Task,
    points: Sequence[Point],
    *,
    seed: int,
    executor: Executor | None = None,
    ledger: Path | None = None,
    progress: Progress | None = None,
    chunk: int = CHUNK,
) -> list[Row]:
    """Run a task on every point.

    Args:
        task: What is done with a point, e.g. :func:`specverify.simulate.simulation.setting_row`.
        points: JSON values by name, e.g. from :func:`grid`.
        seed: Root of all draws.
        executor: Any ``concurrent.futures.Executor``, that of a dask client among them; this
            process without one.
        ledger: File of the finished points. If it is there already, they are not run again.
        progress: Told whenever points are finished.
        chunk: Points handed to the executor at once. The rows do not depend on it.

    Returns:
        One row a point, in the order of the points, as JSON gives them back.

    Raises:
        InvalidInputError: If the ledger is of another sweep.
    """
    checked_count("chunk", chunk)
    name = f"{task.__module__}.{task.__qualname__}"
    book = Ledger(ledger, {"task": name, "seed": seed, "points": [dict(p) for p in points]})
    done: dict[int, Row] = book.rows()
    told = progress or (lambda *_: None)
    told(len(done), len(points))
    left = [index for index in range(len(points)) if index not in done]
    jobs = [
        (task, seed, [(index, points[index]) for index in left[start : start + chunk]])
        for start in range(0, len(left), chunk)
    ]
    with book:
        for rows in _results(jobs, executor):
            book.add(rows)
            done |= rows
            told(len(done), len(points))
    return [done[index] for index in range(len(points))]


def _results(
    jobs: Sequence[tuple[Any, ...]], executor: Executor | None
) -> Iterator[dict[int, Row]]:
    """What the jobs give, as they are ready; a failure is raised after what has succeeded."""
    if executor is None:
        yield from (_run_points(*job) for job in jobs)
        return
    futures = [executor.submit(_run_points, *job) for job in jobs]
    failure: BaseException | None = None
    try:
        for future in as_completed(futures):
            if future.cancelled():
                continue
            problem = future.exception()
            if problem is None:
                yield future.result()
            elif failure is None:
                failure = problem
                _cancel(futures)
    finally:
        _cancel(futures)
    if failure is not None:
        raise failure


def _cancel(futures: Sequence[Future[Any]]) -> None:
    for future in futures:
        future.cancel()


def _run_points(task: Task, seed: int, points: Sequence[tuple[int, Point]]) -> dict[int, Row]:
    """Rows by place in the grid, in the form that a ledger gives back."""
    return {
        index: json.loads(json.dumps(task(point, point_generator(seed, index)), allow_nan=False))
        for index, point in points
    }
