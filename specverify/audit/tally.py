"""Counts of one shard: all that is kept of what an implementation did."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from specverify.errors import ImplementationError

__all__ = ["Tally", "merge_all"]

Counts = NDArray[np.int64]


class _Sparse(msgspec.Struct, frozen=True):
    shape: tuple[int, ...]
    where: bytes
    counts: bytes


class _Record(msgspec.Struct, frozen=True):
    arrays: dict[str, _Sparse]
    cases: dict[str, dict[str, Any]]
    error: dict[str, Any] | None
    seconds: float


class Tally:
    """Named integer arrays that add up, first cases of oddities, and an error if one ended it.

    Attributes:
        arrays: Counts by name.
        cases: First case of each kind of oddity (JSON-compatible), by name.
        error: Type, message and case of the implementation's error that ended the shard.
        seconds: Seconds spent.
    """

    def __init__(self) -> None:
        self.arrays: dict[str, Counts] = {}
        self.cases: dict[str, dict[str, Any]] = {}
        self.error: dict[str, Any] | None = None
        self.seconds = 0.0

    def table(self, name: str, shape: tuple[int, ...]) -> Counts:
        """The array of this name, made of zeros when it is first asked for."""
        if name not in self.arrays:
            self.arrays[name] = np.zeros(shape, dtype=np.int64)
        return self.arrays[name]

    def get(self, name: str) -> Counts | None:
        """The array of this name, if anything was counted in it."""
        return self.arrays.get(name)

    def total(self, name: str) -> int:
        """Sum of the array of this name, 0 where there is none."""
        found = self.arrays.get(name)
        return 0 if found is None else int(found.sum())

    def note(self, kind: str, case: dict[str, Any]) -> None:
        """Keep the first case of its kind."""
        self.cases.setdefault(kind, case)

    def fail(self, error: ImplementationError) -> None:
        """Keep the error that ended the shard, with its input."""
        kind = type(error).__name__
        self.error = {"type": kind, "message": error.message, "case": error.case}

    def add(self, other: Tally) -> None:
        """Add the counts of a later shard."""
        for name, counts in other.arrays.items():
            self.table(name, counts.shape)[...] += counts
        for kind, case in other.cases.items():
            self.note(kind, case)
        self.error = self.error or other.error
        self.seconds += other.seconds

    def encode(self) -> bytes:
        """MessagePack bytes: what a worker sends and a ledger keeps."""
        arrays = {name: _sparse(counts) for name, counts in self.arrays.items()}
        return msgspec.msgpack.encode(_Record(arrays, self.cases, self.error, self.seconds))

    @classmethod
    def decode(cls, data: bytes) -> Tally:
        """The tally of :meth:`encode`'s bytes."""
        record = msgspec.msgpack.decode(data, type=_Record)
        tally = cls()
        tally.arrays = {name: _dense(sparse) for name, sparse in record.arrays.items()}
        tally.cases, tally.error, tally.seconds = record.cases, record.error, record.seconds
        return tally


def merge_all(tallies: list[Tally]) -> Tally:
    """Sum of tallies in their order."""
    total = Tally()
    for tally in tallies:
        total.add(tally)
    return total


def _sparse(counts: Counts) -> _Sparse:
    flat = counts.reshape(-1)
    where = np.flatnonzero(flat)
    return _Sparse(counts.shape, where.astype("<i8").tobytes(), flat[where].astype("<i8").tobytes())


def _dense(sparse: _Sparse) -> Counts:
    counts = np.zeros(sparse.shape, dtype=np.int64)
    where = np.frombuffer(sparse.where, dtype="<i8")
    counts.reshape(-1)[where] = np.frombuffer(sparse.counts, dtype="<i8")
    return counts
