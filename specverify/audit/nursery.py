"""The process that workers are forked from: ``python -m specverify.audit.nursery FD MODULE ...``.

What every worker needs is imported here once; the audited code never is, so that each worker loads
it afresh. A request is one message over a Unix socket: with three descriptors (standard input,
output and error) it asks for a worker and is answered by its number, without any it names a worker
and is answered by how that ended.
"""

from __future__ import annotations

import gc
import os
import socket
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module

__all__ = ["MESSAGE", "STREAMS", "main"]

MESSAGE, STREAMS = 64, 3
"""Most bytes of a message, and the descriptors that come with one that asks for a worker."""


def main(arguments: Sequence[str]) -> None:
    """Serve until the other side closes.

    Args:
        arguments: Descriptor of the socket, then modules to import.
    """
    line = socket.socket(fileno=int(arguments[0]))
    _import_all(arguments[1:])
    while True:
        message, streams, _, _ = socket.recv_fds(line, MESSAGE, STREAMS)
        if not message:
            os._exit(0)  # letting go of what was imported, one by one, takes long
        number = _forked(line, streams) if streams else _how_it_ended(int(message))
        line.send(str(number).encode())


def _import_all(names: Sequence[str]) -> None:
    """Import what workers need; all that is made meanwhile stays: there is nothing to collect."""
    gc.disable()
    for name in names:
        # A module that cannot be imported is for the worker to complain of, which needs it.
        with suppress(Exception):
            import_module(name)
    gc.freeze()
    gc.enable()


def _forked(line: socket.socket, streams: Sequence[int]) -> int:
    """Number of a new process that serves as a worker on these streams."""
    number = os.fork()
    if number == 0:
        os.setsid()
        line.close()
        for place, stream in enumerate(streams):
            os.dup2(stream, place)
            os.close(stream)
        _serve()
    for stream in streams:
        os.close(stream)
    return number


def _serve() -> None:
    """Be a worker, and never come back from it."""
    code = 1
    try:
        from specverify.audit.worker import main as work

        work()
        code = 0
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
    except BaseException:
        traceback.print_exc()
    sys.stderr.flush()
    os._exit(code)


def _how_it_ended(number: int) -> int:
    """Exit code of a worker, minus the signal's number where one ended it; waits for the end."""
    return os.waitstatus_to_exitcode(os.waitpid(number, 0)[1])


if __name__ == "__main__":
    main(sys.argv[1:])
