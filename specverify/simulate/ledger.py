"""Append-only file of a sweep's finished points: a line says which sweep, then a line a point."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from specverify.errors import InvalidInputError

__all__ = ["Ledger"]


class Ledger:
    """Finished points of one sweep; without a path, nothing is kept.

    A line is written whole and flushed, and one that a kill cut short is dropped on reading.

    Args:
        path: JSON lines, made if not there.
        sweep: Everything that decides the rows: task, seed and points.

    Raises:
        InvalidInputError: If the file is no ledger, or that of another sweep.
    """

    def __init__(self, path: Path | None, sweep: Mapping[str, Any]) -> None:
        self._path = path
        self._head = {"sweep": 1, "digest": _digest(sweep)}
        self._file: IO[bytes] | None = None

    def rows(self) -> dict[int, dict[str, Any]]:
        """Rows by place of the points that are finished."""
        lines = self._lines()
        if not lines:
            return {}
        try:
            head, *entries = map(json.loads, lines)
            found = {entry["index"]: entry["row"] for entry in entries}
        except (ValueError, TypeError, KeyError):
            raise InvalidInputError("ledger", f"{self._path} is not a sweep's ledger") from None
        if head != self._head:
            raise InvalidInputError(
                "ledger", f"{self._path} belongs to another sweep (task, seed or points differ)"
            )
        return found

    def __enter__(self) -> Ledger:
        if self._path is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            whole = b"".join(line + b"\n" for line in self._lines())
            self._file = self._path.open("r+b" if self._path.exists() else "w+b")
            self._file.truncate(len(whole))  # without a line that was cut short
            self._file.seek(len(whole))
            if not whole:
                self._write(self._head)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._file is not None:
            self._file.close()

    def add(self, rows: Mapping[int, Mapping[str, Any]]) -> None:
        """Keep the rows of finished points."""
        for index, row in rows.items():
            self._write({"index": index, "row": row})
        if self._file is not None:
            self._file.flush()

    def _write(self, value: Mapping[str, Any]) -> None:
        if self._file is not None:
            self._file.write(json.dumps(value).encode() + b"\n")

    def _lines(self) -> list[bytes]:
        """The lines that end as a line does."""
        if self._path is None or not self._path.exists():
            return []
        return self._path.read_bytes().split(b"\n")[:-1]


def _digest(sweep: Mapping[str, Any]) -> str:
    text = json.dumps(sweep, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
