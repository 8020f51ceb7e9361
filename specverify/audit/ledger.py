"""The append-only record of an audit's finished shards, from which a killed run is taken up again.

The first frame of the file says what is audited and how; every other one is a finished shard. All
are MessagePack. The process that writes it holds a lock that ends with the process.
"""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path
from typing import Protocol, TypeAlias, TypeVar

import msgspec

from specverify.audit.frames import MAGIC, intact_frames, make_frame
from specverify.audit.header import Header, differences
from specverify.audit.wire import Task
from specverify.errors import InvalidInputError

__all__ = ["Done", "Ledger", "Record", "Unrecorded", "read_ledger"]

_SECONDS_BETWEEN_SYNCS = 0.25
"""A killed process loses nothing that it wrote; only a power cut may take this much."""

Key: TypeAlias = tuple[str, int, int]
KindT = TypeVar("KindT")


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """One finished shard.

    Attributes:
        scenario: Name of its scenario.
        shard: Its number within the scenario.
        n: Completions.
        tally: Its counts, as :meth:`~specverify.audit.tally.Tally.encode` writes them.
        arrived: Seconds of sampling, earlier runs included, after which it was finished.
    """

    scenario: str
    shard: int
    n: int
    tally: bytes
    arrived: float

    @property
    def key(self) -> Key:
        """What tells it from others."""
        return self.scenario, self.shard, self.n


class Record(Protocol):
    """Where finished shards are kept."""

    found: tuple[Done, ...]
    """Shards of earlier runs."""

    def find(self, task: Task) -> Done | None:
        """The shard, if it was finished before."""

    def append(self, done: Done) -> None:
        """Keep a finished shard."""

    def complete(self) -> None:
        """The audit has come to its end."""


class Unrecorded:
    """Keeps nothing: the audit cannot be taken up again."""

    found: tuple[Done, ...] = ()

    def find(self, task: Task) -> Done | None:
        """Nothing was finished before."""
        return None

    def append(self, done: Done) -> None:
        """Forget it."""

    def complete(self) -> None:
        """Nothing is left to do."""


class Ledger:
    """A ledger open for appending, locked against other processes.

    Args:
        path: The file; made with its folder where there is none.
        header: What is audited and how.
        fresh: Whether to forget what the file holds.
        passing: Whether to remove the file when the audit is complete.

    Attributes:
        found: Shards of earlier runs.

    Raises:
        InvalidInputError: If another process holds it, if it is of another audit (the message
            names what differs), or if it is damaged elsewhere than in its last frame.
        OSError: If it cannot be written.
    """

    def __init__(
        self, path: Path, header: Header, *, fresh: bool = False, passing: bool = False
    ) -> None:
        self.path, self._passing = path, passing
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = _open_locked(path)
        self._synced = time.monotonic()
        try:
            if fresh:
                os.ftruncate(self._file, 0)
            self.found = self._begin(header)
        except BaseException:
            self.close()
            raise
        self._known = {done.key: done for done in self.found}

    def find(self, task: Task) -> Done | None:
        """The shard, if an earlier run finished it."""
        return self._known.get((task.scenario, task.shard, task.n))

    def append(self, done: Done) -> None:
        """Write a finished shard; once this returns, killing the process does not lose it."""
        self._write(msgspec.msgpack.encode(done))
        if time.monotonic() - self._synced >= _SECONDS_BETWEEN_SYNCS:
            self._sync()

    def complete(self) -> None:
        """Remove the file if it was kept for taking the audit up again alone."""
        if self._passing:
            self.path.unlink(missing_ok=True)

    def close(self) -> None:
        """Let go of the file and its lock."""
        self._sync()
        os.close(self._file)

    def _begin(self, header: Header) -> tuple[Done, ...]:
        data = _read_all(self._file)
        if MAGIC.startswith(data):  # empty, or killed within its first bytes
            os.ftruncate(self._file, 0)
            _write_all(self._file, MAGIC)
            data = MAGIC
        frames = list(intact_frames(data, self.path))
        intact = frames[-1][1] if frames else len(MAGIC)
        os.ftruncate(self._file, intact)  # a torn last frame is the shard that was being written
        if not frames:
            self._write(msgspec.msgpack.encode(header))
            return ()
        _refuse_another(self.path, _decode(frames[0][0], Header, self.path), header)
        return tuple(_decode(payload, Done, self.path) for payload, _ in frames[1:])

    def _write(self, payload: bytes) -> None:
        try:
            _write_all(self._file, make_frame(payload))
        except OSError as error:
            text = f"cannot write {self.path}: {error.strerror}"
            raise InvalidInputError("ledger", text) from error

    def _sync(self) -> None:
        os.fsync(self._file)
        self._synced = time.monotonic()


def read_ledger(path: Path) -> tuple[Header, tuple[Done, ...]]:
    """Read a ledger without locking or changing it.

    Args:
        path: The file.

    Returns:
        Its header, and its shards in the order in which they were finished.

    Raises:
        InvalidInputError: If it is no ledger, or damaged elsewhere than in its last frame.
    """
    payloads = [payload for payload, _ in intact_frames(path.read_bytes(), path)]
    if not payloads:
        raise InvalidInputError("ledger", f"{path} has no header")
    shards = tuple(_decode(payload, Done, path) for payload in payloads[1:])
    return _decode(payloads[0], Header, path), shards


def _open_locked(path: Path) -> int:
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            text = f"{path} is held by another process: the same audit is under way"
            raise InvalidInputError("ledger", text) from None
        if os.fstat(file).st_nlink:
            return file
        os.close(file)  # its owner finished and removed it in between


def _refuse_another(path: Path, there: Header, here: Header) -> None:
    differing = differences(there, here)
    if differing:
        text = f"{path} is of another audit: {'; '.join(differing)}; --fresh starts anew"
        raise InvalidInputError("ledger", text)


def _decode(payload: bytes, kind: type[KindT], path: Path) -> KindT:
    try:
        return msgspec.msgpack.decode(payload, type=kind)
    except msgspec.DecodeError as error:
        text = f"{path} was written by another version ({error}); --fresh starts anew"
        raise InvalidInputError("ledger", text) from error


def _read_all(file: int) -> bytes:
    with os.fdopen(os.dup(file), "rb") as stream:
        stream.seek(0)
        return stream.read()


def _write_all(file: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(file, left) :]
