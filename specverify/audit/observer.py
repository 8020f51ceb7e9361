"""What runs around every call: a note of its input, and a limit on its time.

The note outlives the process that wrote it: when the audited code aborts, is killed or never comes
back, the input that did it is read from there.
"""

from __future__ import annotations

import mmap
import signal
import threading
from array import array
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Protocol

from specverify.errors import ImplementationTimeoutError

__all__ = ["FlightRecorder", "InlineWatch", "Observer"]

_SLOTS = 64


class Observer(Protocol):
    """Told before and after every call."""

    def begin(self, note: Sequence[int]) -> None:
        """A call starts; ``note`` says with which input."""

    def end(self) -> None:
        """The call came back."""


class InlineWatch:
    """Limits the time of a call in this process by an alarm, where alarms can be set.

    An alarm interrupts python code in the main thread; it cannot interrupt a compiled loop.
    """

    def __init__(self, time_limit: float) -> None:
        self._limit = time_limit
        self._armed = (
            hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()
        )

    def begin(self, note: Sequence[int]) -> None:
        """Arm the alarm."""
        if self._armed:
            self._previous = signal.signal(signal.SIGALRM, self._ring)
            signal.setitimer(signal.ITIMER_REAL, self._limit)

    def end(self) -> None:
        """Disarm it."""
        if self._armed:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, self._previous)

    def _ring(self, number: int, frame: FrameType | None) -> None:
        raise ImplementationTimeoutError(f"did not return within {self._limit:g} s")


class FlightRecorder:
    """A few integers in a file that two processes map: the call in flight and its input.

    Slot 0 counts calls begun, slot 1 calls ended, slot 2 the length of the note that follows.
    """

    def __init__(self, path: Path, *, create: bool = False) -> None:
        if create:
            path.write_bytes(bytes(8 * _SLOTS))
        with path.open("r+b") as file:
            self._slots = memoryview(mmap.mmap(file.fileno(), 8 * _SLOTS)).cast("q")

    def begin(self, note: Sequence[int]) -> None:
        """Write the note."""
        kept = array("q", note[: _SLOTS - 3])
        self._slots[3 : 3 + len(kept)] = kept
        self._slots[2] = len(kept)
        self._slots[0] += 1

    def end(self) -> None:
        """Mark the call as ended."""
        self._slots[1] += 1

    @property
    def begun(self) -> int:
        """Calls begun so far."""
        return self._slots[0]

    @property
    def in_flight(self) -> bool:
        """Whether a call has begun and not ended."""
        return self._slots[0] != self._slots[1]

    @property
    def note(self) -> list[int]:
        """Note of the last call begun."""
        return self._slots[3 : 3 + self._slots[2]].tolist()
