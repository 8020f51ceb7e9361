"""The process that runs the audited code: ``python -m specverify.audit.worker``.

It reads a setup and then tasks from its standard input and answers on its standard output, which
the audited code cannot reach: whatever it prints goes to standard error.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import msgspec

from specverify.audit.forms import Form, Framework
from specverify.audit.lifeline import end_with_parent
from specverify.audit.observer import FlightRecorder
from specverify.audit.samplers import Bench
from specverify.audit.targets import Target, resolve
from specverify.audit.wire import Failure, Ready, Setup, Task, read_frame, write_frame
from specverify.errors import SpecVerifyError, UnsupportedRandomness

__all__ = ["main"]


def main() -> None:
    """Serve until the other side closes."""
    source, sink = _take_standard_streams()
    end_with_parent(source)
    head = read_frame(source)
    if head is None:
        return
    setup = msgspec.msgpack.decode(head, type=Setup)
    try:
        target = _load(setup)
    except SpecVerifyError as error:
        write_frame(sink, b"!" + msgspec.msgpack.encode(Failure.of(error)))
        return
    ready = Ready(form=str(target.form), target=target.describe())
    write_frame(sink, b"." + msgspec.msgpack.encode(ready))
    bench = Bench(target, FlightRecorder(Path(setup.recorder)), setup.seed)
    while (frame := read_frame(source)) is not None:
        write_frame(sink, _answer(bench, msgspec.msgpack.decode(frame, type=Task)))


def _answer(bench: Bench, task: Task) -> bytes:
    """The counts of a shard, or that code met random numbers which it had kept while traced."""
    try:
        return b"." + bench.run(task).encode()
    except UnsupportedRandomness as error:
        return b"?" + str(error).encode()


def _take_standard_streams() -> tuple[int, int]:
    source, sink = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    return source, sink


def _load(setup: Setup) -> Target:
    sys.path[:] = setup.sys_path
    target = resolve(
        setup.spec,
        form=Form(setup.form) if setup.form else None,
        framework=Framework(setup.framework) if setup.framework else None,
    )
    if target.framework is Framework.TORCH or "torch" in sys.modules:
        import torch

        # One block is too small for threads; several workers would fight for the cores.
        torch.set_num_threads(1)
    if setup.memory_limit is not None:
        _limit_memory(setup.memory_limit)
    return target


def _limit_memory(extra: int) -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + extra
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


if __name__ == "__main__":
    main()
