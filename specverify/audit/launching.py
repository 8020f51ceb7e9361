"""How worker processes are started: each on its own, or forked from one that has what they need."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import IO, Protocol

from specverify.audit.nursery import MESSAGE

__all__ = [
    "Launched",
    "Launcher",
    "NurseryLauncher",
    "SingleLauncher",
    "kill",
    "last_line",
    "launcher",
]

# Hypothesis, which shrinks a failing case, would load what other projects plug into it.
_SETTINGS = {"HYPOTHESIS_NO_PLUGINS": "1"}
_NEEDED = ("specverify.audit.worker", "specverify.audit.exactly")
_IMPORTS_TORCH = re.compile(r"^\s*(import|from) torch\b", re.MULTILINE)


class Launched(Protocol):
    """A process that was started."""

    @property
    def pid(self) -> int | None:
        """Its number, which stays its own until it was waited for; None if there is no such."""

    def wait(self) -> int:
        """Wait for its end; the exit code, or minus the number of the signal that ended it."""


class Launcher(Protocol):
    """Starts workers."""

    def start(self, source: int, sink: int, errors: int) -> Launched:
        """Start one.

        Args:
            source: Descriptor that becomes its standard input.
            sink: Its standard output.
            errors: Its standard error.
        """

    def last_words(self) -> str:
        """Last line that what starts them wrote to standard error."""

    def close(self) -> None:
        """Let go of what starts them."""


def launcher(target: str, workers: int) -> Launcher:
    """What starts the workers of an audit: forks save every further one its imports.

    Args:
        target: Text that names the implementation.
        workers: How many are needed.
    """
    # Elsewhere a fork after such imports is not safe, or there is none.
    if workers > 1 and sys.platform == "linux":
        return NurseryLauncher(("torch",) if _imports_torch(target) else ())
    return SingleLauncher()


def kill(process: Launched) -> None:
    """Kill a process that nobody has waited for, and whatever it started in its session."""
    if process.pid is None:
        return
    for end in (os.killpg, os.kill):  # a process may not lead its group yet
        with suppress(ProcessLookupError):
            end(process.pid, signal.SIGKILL)


def last_line(errors: IO[bytes]) -> str:
    """Last line of what was written to a file; empty where nothing was."""
    errors.seek(0)
    lines = errors.read().decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else ""


class SingleLauncher:
    """Starts each worker as a process of its own."""

    def start(self, source: int, sink: int, errors: int) -> Launched:
        """Start an interpreter."""
        command = [sys.executable, "-m", "specverify.audit.worker"]
        return subprocess.Popen(
            command,
            stdin=source,
            stdout=sink,
            stderr=errors,
            start_new_session=True,
            env=os.environ | _SETTINGS,
        )

    def last_words(self) -> str:
        """Nothing speaks but the workers."""
        return ""

    def close(self) -> None:
        """Nothing to let go of."""


class NurseryLauncher:
    """Forks workers from a nursery, started at once; answers are awaited when they are needed.

    Args:
        modules: What workers need beside this package's own modules.
    """

    def __init__(self, modules: tuple[str, ...] = ()) -> None:
        self.modules = modules
        self._unanswered: deque[_Forked] = deque()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the launcher
        self._line, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [sys.executable, "-m", "specverify.audit.nursery", str(far.fileno())]
        with far:
            self._nursery = subprocess.Popen(
                [*command, *_NEEDED, *modules],
                pass_fds=[far.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._errors,
                start_new_session=True,
                env=os.environ | _SETTINGS,
            )

    def start(self, source: int, sink: int, errors: int) -> Launched:
        """Ask for one, which the nursery forks when its own imports are done."""
        child = _Forked(self)
        self._unanswered.append(child)
        with suppress(OSError):  # it has ended: the worker is found to have ended, too
            socket.send_fds(self._line, [b"start"], [source, sink, errors])
        return child

    def last_words(self) -> str:
        """What the nursery said last, which may be why it could not fork."""
        return last_line(self._errors)

    def close(self) -> None:
        """End the nursery, and with it every worker that is left."""
        self._line.close()
        self._nursery.kill()  # it may be in the middle of an import
        self._nursery.wait()
        self._errors.close()

    def answer(self) -> int | None:
        """The next answer; None where the nursery has ended."""
        with suppress(OSError):
            said = self._line.recv(MESSAGE)
            return int(said) if said else None
        return None

    def settle(self) -> None:
        """Read the numbers of all workers that were asked for."""
        while self._unanswered:
            self._unanswered.popleft().number = self.answer()

    def how_it_ended(self, number: int) -> int | None:
        """Wait for a worker's end."""
        with suppress(OSError):
            self._line.send(str(number).encode())
        return self.answer()


class _Forked:
    """A worker that the nursery waits for, being its parent."""

    def __init__(self, nursery: NurseryLauncher) -> None:
        self._nursery = nursery
        self._code: int | None = None
        self.number: int | None = None

    @property
    def pid(self) -> int | None:
        """Its number; None where there never was such a process."""
        self._nursery.settle()
        return self.number

    def wait(self) -> int:
        """Ask the nursery, once; 1 where nobody knows."""
        if self._code is None:
            known = self.pid
            found = None if known is None else self._nursery.how_it_ended(known)
            self._code = 1 if found is None else found
        return self._code


def _imports_torch(target: str) -> bool:
    """Whether the file that a target names imports torch; it is read, not run."""
    where = target.rpartition(":")[0]
    path = Path(where) if where.endswith(".py") else _module_file(where)
    try:
        return path is not None and bool(_IMPORTS_TORCH.search(path.read_text(errors="replace")))
    except OSError:
        return False


def _module_file(name: str) -> Path | None:
    """File of a module, looked for as python does but without importing its packages."""
    inside = Path(*name.split(".")) if name else None
    if inside is None:
        return None
    folders = (Path(entry) for entry in (*sys.path, "."))
    files = (folder / end for folder in folders for end in (f"{inside}.py", inside / "__init__.py"))
    return next((file for file in files if file.is_file()), None)
