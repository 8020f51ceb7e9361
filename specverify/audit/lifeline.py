"""Workers end with the audit that started them, however that ends and whatever they are doing."""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys
import threading

__all__ = ["end_with_parent"]

_PR_SET_PDEATHSIG = 1


def end_with_parent(pipe: int) -> None:
    """End this process when the other side of a pipe is closed.

    A thread waits for that. Compiled code that never lets python threads run would starve it, so
    that Linux is asked as well to kill this process with its parent.

    Args:
        pipe: Descriptor of the end that is read from; the other is held by the parent alone.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    threading.Thread(target=_wait, args=(pipe,), daemon=True).start()


def _wait(pipe: int) -> None:
    poll = select.poll()
    poll.register(pipe, 0)  # no event but the hang-up, which needs no asking
    while not any(event & (select.POLLHUP | select.POLLERR) for _, event in poll.poll()):
        pass
    os._exit(1)
