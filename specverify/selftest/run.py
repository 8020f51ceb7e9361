"""The self-test: every member of the zoo, in worker processes, one table."""

from __future__ import annotations

import fnmatch
import multiprocessing
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from typing import TypeAlias

from specverify.bugs import catalog
from specverify.bugs.base import Bug
from specverify.bugs.registry import members
from specverify.errors import InvalidInputError
from specverify.selftest.judgement import judge_member
from specverify.selftest.outcome import Row, SelftestResult
from specverify.selftest.settings import DEFAULT, LEVEL, THOROUGH

__all__ = ["Told", "chosen_members", "selftest"]

Told: TypeAlias = Callable[[int, int, Row], None]
"""Takes the number of rows done, of rows to do, and the latest row."""


def selftest(
    *,
    only: str | None = None,
    seed: int = 0,
    workers: int = 2,
    thorough: bool = False,
    progress: Told | None = None,
) -> SelftestResult:
    """Check that every known bug fails here and every control passes.

    Args:
        only: Shell pattern of the members' names; None tests all.
        seed: Root of every draw; the result is a function of it, whatever ``workers``.
        workers: Worker processes; 1 runs in this one.
        thorough: Whether to run the full study.
        progress: Called after every member.

    Raises:
        InvalidInputError: If the pattern fits no member, or a number is out of range.
    """
    if workers < 1:
        raise InvalidInputError("workers", f"must be at least 1, got {workers}")
    if seed < 0:
        raise InvalidInputError("seed", f"must not be negative, got {seed}")
    chosen = chosen_members(only)
    tell: Told = progress or (lambda done, total, row: None)
    rows: dict[str, Row] = {}
    for row in _judged(list(chosen), seed, thorough=thorough, workers=workers):
        rows[row.name] = row
        tell(len(rows), len(chosen), row)
    return SelftestResult(
        seed=seed, thorough=thorough, level=LEVEL, rows=tuple(rows[name] for name in chosen)
    )


def chosen_members(only: str | None) -> dict[str, Bug]:
    """Members whose names fit a shell pattern.

    Raises:
        InvalidInputError: If there is none.
    """
    found = {n: b for n, b in members().items() if only is None or fnmatch.fnmatchcase(n, only)}
    if not found:
        raise InvalidInputError("only", f"no member of the zoo is called {only!r}")
    return found


def _judged(names: Sequence[str], seed: int, *, thorough: bool, workers: int) -> Iterator[Row]:
    if workers == 1:
        for name in names:
            yield _judge(name, seed, thorough)
        return
    pool = ProcessPoolExecutor(
        min(workers, len(names)),
        # A fresh interpreter: a fork would copy the locks of whatever threads there are.
        mp_context=multiprocessing.get_context("spawn"),
        initializer=_find_the_same,
        initargs=(list(sys.path), list(catalog.__path__)),
    )
    with pool:
        waiting: list[Future[Row]] = [pool.submit(_judge, name, seed, thorough) for name in names]
        try:
            for done in as_completed(waiting):
                yield done.result()
        finally:
            pool.shutdown(cancel_futures=True)


def _find_the_same(paths: list[str], folders: list[str]) -> None:
    """Let a worker find the members that the parent found."""
    sys.path[:] = paths
    catalog.__path__[:] = folders


def _judge(name: str, seed: int, thorough: bool) -> Row:
    return judge_member(members()[name], THOROUGH if thorough else DEFAULT, seed)
