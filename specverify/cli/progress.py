"""How far a long command is: a bar on a terminal, now and then a line elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

from specverify.cli.shell import is_terminal, note

if TYPE_CHECKING:
    from rich.progress import TaskID

__all__ = ["Report", "progress"]

Report: TypeAlias = Callable[[str, float, float, str], None]
"""Takes a stage, what is done of it, what there is to do, and a remark."""

_SECONDS_BETWEEN_LINES = 5.0


@contextmanager
def progress() -> Iterator[Report]:
    """Give a function that shows progress on standard error."""
    if not is_terminal(sys.stderr):
        yield _Lines().show
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeElapsedColumn(),
        TextColumn("{task.fields[remark]}"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        yield _Bars(bars).show


class _Bars:
    """One bar a stage."""

    def __init__(self, bars: object) -> None:
        from rich.progress import Progress

        assert isinstance(bars, Progress)
        self._bars = bars
        self._tasks: dict[str, TaskID] = {}

    def show(self, stage: str, done: float, total: float, remark: str) -> None:
        """Move the stage's bar."""
        if stage not in self._tasks:
            self._tasks[stage] = self._bars.add_task(stage, remark="")
        self._bars.update(self._tasks[stage], completed=done, total=total, remark=remark)


class _Lines:
    """A line when a stage begins and ends, and every few seconds between."""

    def __init__(self) -> None:
        self._stage = ""
        self._last = 0.0

    def show(self, stage: str, done: float, total: float, remark: str) -> None:
        """Write a line, unless the last one is fresh."""
        now = time.monotonic()
        if stage == self._stage and done < total and now - self._last < _SECONDS_BETWEEN_LINES:
            return
        self._stage, self._last = stage, now
        share = f"{done / total:.0%}" if total else ""
        note("  ".join(part for part in (stage, share, remark) if part))
