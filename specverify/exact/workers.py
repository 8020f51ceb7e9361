"""Enumeration by several processes: the tree is cut at its first branches and dealt out.

The parts do not depend on which process is done first, and masses are summed exactly, so that the
law is the one that a single process finds, bit for bit.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from typing import Any

from specverify.errors import InvalidInputError
from specverify.exact.exploring import ROOT, Branch, Budget, Tally, explore

__all__ = ["explore_with_workers"]

_PARTS_A_WORKER = 4


def explore_with_workers(
    fn: Callable[[], Any], budget: Budget, workers: int
) -> tuple[Tally, list[Branch]]:
    """Run every path of ``fn`` in ``workers`` processes.

    Rounds are dealt out until nothing is left: what a part's share of the paths did not suffice for
    is dealt out again.

    Args:
        fn: A callable that a fresh process can import by name.
        budget: When to stop; its seconds are those of each process.
        workers: Processes, at least 2.

    Returns:
        What was found, and the branches that the budget left.

    Raises:
        InvalidInputError: If ``fn`` cannot be sent to another process.
        UnsupportedRandomness: If the code does something that the tracer does not understand.
        ReplayDivergence: If two runs with the same choices differ.
    """
    _check_importable(fn)
    parts = _PARTS_A_WORKER * workers
    first = replace(budget, max_paths=min(budget.max_paths, parts), order="best")
    tally, frontier = explore(fn, [ROOT], first)
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        while frontier and tally.seconds < budget.max_seconds * workers:
            remaining = budget.max_paths - tally.paths
            if remaining <= 0:
                break
            count = min(parts, len(frontier), remaining)
            share = replace(budget, max_paths=remaining // count)
            dealt = [frontier[k::count] for k in range(count)]
            tasks = [pool.submit(explore, fn, part, share) for part in dealt]
            frontier = []
            for task in tasks:
                found, left = task.result()
                tally.merge(found)
                frontier += left
    return tally, frontier


def _check_importable(fn: Callable[[], Any]) -> None:
    try:
        pickle.dumps(fn)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise InvalidInputError(
            "fn", f"must be importable by name to be run by workers: {error}"
        ) from error
