"""Messages between an audit and its workers: length-prefixed MessagePack, nothing that runs."""

from __future__ import annotations

import os
from typing import Any

import msgspec

import specverify.errors as errors

__all__ = [
    "EXACT_SHARD",
    "SEARCH_SHARD",
    "Failure",
    "Ready",
    "Setup",
    "Task",
    "read_frame",
    "write_frame",
]

EXACT_SHARD, SEARCH_SHARD = 2**31, 2**31 + 1
"""Numbers of the shards that trace a law and that look for its smallest counterexample."""


class Setup(msgspec.Struct, frozen=True, kw_only=True):
    """First message to a worker.

    Attributes:
        spec: Target, as a user writes it.
        form: Form, where told.
        framework: Framework, where told.
        seed: Root seed.
        recorder: Path of the flight recorder.
        memory_limit: Bytes beyond what is mapped after loading.
        sys_path: Where modules are looked for.
    """

    spec: str
    form: str | None
    framework: str | None
    seed: int
    recorder: str
    memory_limit: int | None
    sys_path: list[str]


class Ready(msgspec.Struct, frozen=True, kw_only=True):
    """Answer to the setup: the target was found.

    Attributes:
        form: How it is called.
        target: Record for ``result.json``.
    """

    form: str
    target: dict[str, Any]


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """One shard to sample, or to trace.

    Attributes:
        scenario: Name of the scenario.
        shard: Number of the shard within the scenario; fixes its seeds. :data:`EXACT_SHARD` traces
            the law and samples what confirms it, :data:`SEARCH_SHARD` searches for a case.
        n: Completions.
        probe: Whether the interface is probed first.
    """

    scenario: str
    shard: int
    n: int
    probe: bool = False

    @property
    def exact(self) -> bool:
        """Whether the audited code is run under the tracer."""
        return self.shard in (EXACT_SHARD, SEARCH_SHARD)


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """An error of the suite or of its user that crosses the wire: class and text arguments."""

    kind: str
    arguments: list[str]

    @classmethod
    def of(cls, error: errors.SpecVerifyError) -> Failure:
        """Record of an error."""
        reduced = error.__reduce__()
        assert isinstance(reduced, tuple)
        return cls(kind=type(error).__name__, arguments=[str(a) for a in reduced[1]])

    def to_error(self) -> errors.SpecVerifyError:
        """The error again."""
        found = getattr(errors, self.kind)(*self.arguments)
        assert isinstance(found, errors.SpecVerifyError)
        return found


def write_frame(descriptor: int, payload: bytes) -> None:
    """Write one message whole."""
    data = memoryview(len(payload).to_bytes(4, "little") + payload)
    while data:
        data = data[os.write(descriptor, data) :]


def read_frame(descriptor: int) -> bytes | None:
    """Read one message whole; None where the other side is gone."""
    head = _read(descriptor, 4)
    return None if head is None else _read(descriptor, int.from_bytes(head, "little"))


def _read(descriptor: int, count: int) -> bytes | None:
    parts, missing = [], count
    while missing:
        part = os.read(descriptor, missing)
        if not part:
            return None
        parts.append(part)
        missing -= len(part)
    return b"".join(parts)
