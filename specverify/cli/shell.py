"""Where commands meet the terminal: results to standard output, the rest to standard error."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

import typer

from specverify.errors import InvalidInputError
from specverify.report.tables import records_table, render_table

__all__ = [
    "is_terminal",
    "note",
    "say",
    "say_json",
    "say_records",
    "screen",
    "terminable",
    "writable_file",
    "writable_folder",
    "write_file",
]


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


def say_records(records: Sequence[Mapping[str, Any]], *, title: str = "") -> None:
    """A table on standard output, a row a record; columns of numbers are aligned to the right.

    Args:
        records: Rows with the same keys, which are the headers.
        title: A line above the table.
    """
    if not records:
        say(f"{title}\n(none)")
        return
    width, color = screen()
    say(render_table(records_table(records, title=title), width=width, color=color))


def note(text: str) -> None:
    """Something for people that is not the result: progress, a hint, an error."""
    typer.echo(text, err=True)


@contextmanager
def terminable() -> Iterator[None]:
    """Let a request to terminate interrupt the work as Ctrl-C does, so that it ends in order."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def writable_file(option: str, path: Path | None) -> None:
    """Refuse a file that cannot be written, before long work goes into what belongs there.

    Args:
        option: Name of the option, for the message.
        path: The file; its folder need not be there yet. None is no file.

    Raises:
        InvalidInputError: If it is a directory, or may not be written.
    """
    if path is None:
        return
    if path.is_dir():
        raise InvalidInputError(option, f"cannot write {path}: is a directory")
    if path.exists() and not os.access(path, os.W_OK):
        raise InvalidInputError(option, f"cannot write {path}: no permission")
    writable_folder(option, path.parent)


def writable_folder(option: str, path: Path | None) -> None:
    """Refuse a folder that nothing can be written into, before long work.

    Args:
        option: Name of the option, for the message.
        path: The folder, which need not be there yet. None is no folder.

    Raises:
        InvalidInputError: If it, or what it would lie in, is a file or may not be written.
    """
    if path is None:
        return
    there = next(place for place in (path, *path.absolute().parents) if place.exists())
    if not there.is_dir():
        raise InvalidInputError(option, f"cannot write into {path}: {there} is a file")
    if not os.access(there, os.W_OK | os.X_OK):
        raise InvalidInputError(option, f"cannot write into {path}: no permission in {there}")


def write_file(option: str, path: Path, text: str) -> None:
    """Write a rendering, making its folder.

    Raises:
        InvalidInputError: If the path cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InvalidInputError(option, f"cannot write {path}: {error.strerror}") from error
