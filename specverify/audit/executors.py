"""Who runs the shards: this process, or workers that may crash or hang without harm."""

from __future__ import annotations

import os
import selectors
import signal
import sys
import tempfile
import time
from collections import deque
from collections.abc import Generator
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

import msgspec

from specverify.audit.config import AuditConfig
from specverify.audit.forms import Form
from specverify.audit.launching import Launcher, kill, last_line
from specverify.audit.observer import FlightRecorder, InlineWatch
from specverify.audit.randomness import global_generators_kept
from specverify.audit.tally import Tally
from specverify.audit.targets import resolve
from specverify.audit.wire import Failure, Ready, Setup, Task, read_frame, write_frame
from specverify.errors import UnknownTargetError, UnsupportedRandomness

__all__ = ["Executor", "InlineExecutor", "ProcessExecutor"]

_LOAD_LIMIT = 300.0
_POLL = 0.1

KEPT = "it keeps random numbers from call to call: ordinary ones used some of the traced ones"
"""Why a law was not traced: what the tracer handed out turned up where nothing is traced."""

GENERATE_PATIENCE = 10.0
"""One call of an engine draws several completions: its time limit is this many times longer."""


class Executor(Protocol):
    """Runs shards.

    Attributes:
        form: How the target is called.
        target: Record of the target for ``result.json``.
    """

    form: Form
    target: dict[str, Any]

    def run(self, tasks: deque[Task]) -> Generator[tuple[Task, Tally], None, None]:
        """Run tasks; results come as they are ready. Closing the iterator abandons the rest.

        Args:
            tasks: Taken from the left as they are begun; may grow as long as results are read.
        """

    def close(self) -> None:
        """Let go of processes and files."""


class InlineExecutor:
    """Runs shards in this process; a crash of the audited code is a crash.

    Args:
        target: The implementation, or text that names it.
        config: Form, framework and time limit.
        seed: Root seed.
    """

    def __init__(self, target: Any, config: AuditConfig, seed: int) -> None:
        from specverify.audit.samplers import Bench

        found = resolve(target, form=config.form, framework=config.framework)
        self.form = found.form
        self.target = found.describe()
        patience = GENERATE_PATIENCE if found.form is Form.GENERATE else 1.0
        self._watch = InlineWatch(patience * config.time_limit)
        self._bench = Bench(found, self._watch, seed)

    def run(self, tasks: deque[Task]) -> Generator[tuple[Task, Tally], None, None]:
        """Run tasks one after the other."""
        while tasks:
            task = tasks.popleft()
            with global_generators_kept():
                tally = self._run(task)
            yield task, tally

    def _run(self, task: Task) -> Tally:
        try:
            return self._bench.run(task)
        except UnsupportedRandomness as error:
            self._watch.end()
            if task.exact:
                return _refused(KEPT, deceived=True)
            tally = Tally()
            text = (
                f"{KEPT} ({error}); name it as module:function, or sample it with mode statistical"
            )
            case = {"scenario": task.scenario}
            tally.error = {"type": "ImplementationRaisedError", "message": text, "case": case}
            return tally

    def close(self) -> None:
        """Nothing to let go of."""


class _Worker:
    """One process, with the notes of its calls."""

    def __init__(self, setup: Setup, folder: Path, number: int, launcher: Launcher) -> None:
        self._setup, self._folder, self._number = setup, folder, number
        self._launcher = launcher
        self.start()

    def start(self) -> None:
        """Start the process, for the first time or anew."""
        recorder = self._folder / f"calls-{self._number}"
        self.recorder = FlightRecorder(recorder, create=True)
        self._errors = (self._folder / f"stderr-{self._number}").open("w+b")
        source, self._in = os.pipe()
        self.out, sink = os.pipe()
        self.process = self._launcher.start(source, sink, self._errors.fileno())
        # The other ends are the process's alone, so that its end is seen here and ours there.
        os.close(source)
        os.close(sink)
        self.task: Task | None = None
        self.ended = self.traced = False
        self._code: int | None = None
        self._seen, self._since = -1, time.monotonic()
        write_frame(self._in, msgspec.msgpack.encode(_with_recorder(self._setup, recorder)))

    def give(self, task: Task) -> None:
        """Send a task."""
        self.task = task
        self.traced = self.traced or task.exact
        self._seen = -1
        write_frame(self._in, msgspec.msgpack.encode(task))

    def stuck_for(self) -> float:
        """Seconds since the call in flight was first seen."""
        if not self.recorder.in_flight or self.recorder.begun != self._seen:
            self._seen, self._since = self.recorder.begun, time.monotonic()
        return time.monotonic() - self._since if self.recorder.in_flight else 0.0

    def wait(self) -> int:
        """Wait for its end; the exit code, or minus the number of the signal that ended it."""
        if self._code is None:
            self._code = self.process.wait()
        return self._code

    def last_words(self) -> str:
        """Last line that the process, or what should have started it, wrote to standard error."""
        return last_line(self._errors) or self._launcher.last_words()

    def end(self) -> None:
        """Kill the process and whatever it started."""
        if self.ended:
            return
        self.ended = True
        if self._code is None:
            kill(self.process)
            self.wait()
        os.close(self._in)
        os.close(self.out)
        self._errors.close()


class ProcessExecutor:
    """Runs shards in worker processes.

    Args:
        target: Text that names the implementation; this process never imports it.
        config: Form, framework, limits and number of workers.
        seed: Root seed.
        launcher: Starts them; closed with this executor.

    Raises:
        SpecVerifyError: What the worker said when it could not find or load the target.
    """

    def __init__(self, target: str, config: AuditConfig, seed: int, launcher: Launcher) -> None:
        self._limit = config.time_limit
        self._folder = tempfile.TemporaryDirectory(prefix="specverify-")
        setup = Setup(
            spec=target,
            form=config.form,
            framework=config.framework,
            seed=seed,
            recorder="",
            memory_limit=config.memory_limit,
            sys_path=sys.path,
        )
        self._workers: list[_Worker] = []
        self._launcher = launcher
        try:
            for number in range(config.workers):
                folder = Path(self._folder.name)
                self._workers.append(_Worker(setup, folder, number, self._launcher))
            # What samples and judges takes as long to import as the workers take to load.
            import_module("specverify.audit.record")
            import_module("specverify.audit.session")
            readies = [self._await_ready(worker) for worker in self._workers]
        except BaseException:
            self.close()
            raise
        self.form = Form(readies[0].form)
        if self.form is Form.GENERATE:
            self._limit *= GENERATE_PATIENCE
        self.target = readies[0].target

    def run(self, tasks: deque[Task]) -> Generator[tuple[Task, Tally], None, None]:
        """Run tasks on whichever worker is free; an abnormal end is an error in the tally."""
        with selectors.DefaultSelector() as selector:
            for worker in self._workers:
                selector.register(worker.out, selectors.EVENT_READ, worker)
            while self._busy(tasks):
                ready = [key.data for key, _ in selector.select(_POLL)]
                for worker in self._workers:
                    task, tally = worker.task, self._collect(worker, worker in ready)
                    if task is None or (tally is None and not worker.ended):
                        continue
                    worker.task = None
                    if worker.ended and (task.exact or tally is None):
                        self._replace(worker, selector)
                    if tally is None:
                        worker.give(task)
                        continue
                    if tally.error is not None:
                        tasks.clear()  # nothing after it counts
                    elif tasks and not task.exact:
                        worker.give(tasks.popleft())
                    # What a traced law shows may put another task first: it is judged before.
                    yield task, tally

    def _busy(self, tasks: deque[Task]) -> bool:
        """Give tasks to idle workers; whether any has one."""
        for worker in self._workers:
            if tasks and worker.task is None:
                worker.give(tasks.popleft())
        return any(worker.task for worker in self._workers)

    def close(self) -> None:
        """Kill the workers and remove their files."""
        for worker in self._workers:
            worker.end()
        self._workers.clear()
        self._launcher.close()
        self._folder.cleanup()

    def _collect(self, worker: _Worker, ready: bool) -> Tally | None:
        if worker.task is None:
            return None
        if ready:
            frame = read_frame(worker.out)
            if frame is None:
                return self._death(worker)
            return self._kept(worker, frame) if frame[:1] == b"?" else Tally.decode(frame[1:])
        if worker.stuck_for() > self._limit:
            text = f"did not return within {self._limit:g} s"
            return self._failure(worker, "ImplementationTimeoutError", text)
        return None

    def _kept(self, worker: _Worker, frame: bytes) -> Tally | None:
        """An answer where code kept what it drew while traced; None where another process may."""
        assert worker.task is not None
        if not worker.traced:
            text = f"raised UnsupportedRandomness: {frame[1:].decode()}"
            return self._failure(worker, "ImplementationRaisedError", text)
        worker.end()
        return _refused(KEPT, deceived=True) if worker.task.exact else None

    def _death(self, worker: _Worker) -> Tally:
        code = worker.wait()
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        words = worker.last_words()
        text = f"its process ended with {how}" + (f": {words}" if words else "")
        return self._failure(worker, "ImplementationRaisedError", text)

    def _replace(self, worker: _Worker, selector: selectors.BaseSelector) -> None:
        """A process that ended under the tracer, or kept what it drew there, is started anew."""
        selector.unregister(worker.out)
        worker.start()
        self._await_ready(worker)
        selector.register(worker.out, selectors.EVENT_READ, worker)

    def _failure(self, worker: _Worker, kind: str, text: str) -> Tally:
        from specverify.audit.samplers import call_case
        from specverify.audit.suites import find_scenario

        assert worker.task is not None
        if worker.task.exact:
            # The tracer may be to blame: what the code does in ordinary calls is seen there.
            worker.end()
            return _refused(f"under the tracer: {text}")
        tally = Tally()
        case = call_case(find_scenario(self.form, worker.task.scenario), worker.recorder.note)
        tally.error = {"type": kind, "message": text, "case": case}
        worker.end()
        return tally

    def _await_ready(self, worker: _Worker) -> Ready:
        with selectors.DefaultSelector() as selector:
            selector.register(worker.out, selectors.EVENT_READ)
            if not selector.select(_LOAD_LIMIT):
                raise UnknownTargetError("target", f"did not load within {_LOAD_LIMIT:g} s")
        frame = read_frame(worker.out)
        if frame is None:
            code = worker.wait()
            words = worker.last_words() or f"exit code {code}"
            raise UnknownTargetError("target", f"loading it ended the process: {words}")
        if frame[:1] == b"!":
            raise msgspec.msgpack.decode(frame[1:], type=Failure).to_error()
        return msgspec.msgpack.decode(frame[1:], type=Ready)


def _refused(reason: str, *, deceived: bool = False) -> Tally:
    """Of a scenario whose law could not be traced."""
    tally = Tally()
    tally.note("exact", {"outcome": "refused", "reason": reason, "deceived": deceived})
    return tally


def _with_recorder(setup: Setup, recorder: Path) -> Setup:
    return msgspec.structs.replace(setup, recorder=str(recorder))
