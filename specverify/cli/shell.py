"""Where commands meet the terminal: results to standard output, the rest to standard error."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterable
from typing import Any, TextIO

import typer

from specverify.report.tables import Table, render_table

__all__ = ["is_terminal", "note", "say", "say_json", "say_table", "screen"]


def is_terminal(stream: TextIO) -> bool:
    """Whether a person reads ``stream`` (a file, a pipe or a test does not)."""
    return stream.isatty()


def screen() -> tuple[int | None, bool]:
    """Width and colour for a rendering on standard output: ``(None, False)`` when piped."""
    if not is_terminal(sys.stdout):
        return None, False
    return shutil.get_terminal_size().columns, True


def say(text: str) -> None:
    """Part of the command's result."""
    typer.echo(text.rstrip("\n"))


def say_json(value: Any) -> None:
    """The command's result as standard JSON (a non-finite number is an error, not ``NaN``)."""
    typer.echo(json.dumps(value, indent=2, allow_nan=False))


def say_table(headers: Iterable[str], rows: Iterable[Iterable[str]], *, title: str = "") -> None:
    """A table on standard output; every column but the first is aligned to the right."""
    columns = tuple(headers)
    width, color = screen()
    table = Table(
        headers=columns,
        rows=[tuple(row) for row in rows],
        right=frozenset(range(1, len(columns))),
        title=title,
    )
    say(render_table(table, width=width, color=color))


def note(text: str) -> None:
    """Something for people that is not the result: progress, a hint, an error."""
    typer.echo(text, err=True)
