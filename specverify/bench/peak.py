"""Audit a verifier at GPT-2's vocabulary; print calls and this process's peak memory."""

from __future__ import annotations

import json
import resource
import sys
from pathlib import Path

from specverify.audit.config import AuditConfig, Budget
from specverify.audit.executors import InlineExecutor
from specverify.audit.record import make_result
from specverify.audit.session import Session

__all__ = ["main", "peak_bytes"]

_CHECKS = ("token[vocab-50257]",)


def main(target: str, calls: int) -> None:
    """Audit ``target`` in this process; print calls made and bytes at most, as JSON.

    Args:
        target: ``path/file.py:function``.
        calls: Most calls of it.
    """
    budget = Budget(calls=calls)
    # A coarse scenario would have its verdict long before the larger budgets are spent.
    config = AuditConfig(mode="statistical", checks=_CHECKS, budget=budget, tv=0.01, strict=True)
    session = Session(InlineExecutor(target, config, 0), config, 0, lambda state: None)
    session.sample()
    result = make_result(session, ())
    print(json.dumps({"calls": result.timing["calls"], "bytes": peak_bytes()}))


def peak_bytes() -> int:
    """Most resident memory that this process has had."""
    status = Path("/proc/self/status")
    if status.exists():
        # getrusage would also count what the parent had when it started this process.
        (line,) = (line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
