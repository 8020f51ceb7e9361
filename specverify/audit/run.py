"""The audit: load, sample, judge, record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from specverify.audit.config import AuditConfig
from specverify.audit.executors import Executor, InlineExecutor, ProcessExecutor
from specverify.audit.record import make_result
from specverify.audit.session import Callback, Progress, Session
from specverify.errors import InvalidInputError
from specverify.results import AuditResult

__all__ = ["audit"]


def audit(
    target: Any,
    *,
    config: AuditConfig | None = None,
    seed: int = 0,
    progress: Callback | None = None,
    argv: Sequence[str] = (),
) -> AuditResult:
    """Audit an implementation of speculative decoding.

    Args:
        target: ``reference``, another registered name, ``module:function``,
            ``path/file.py:function``, a callable, or an engine.
        config: What to do; the defaults of :class:`AuditConfig` when None.
        seed: Root of every draw.
        progress: Called after every shard.
        argv: The command, for the record.

    Returns:
        Verdicts, checks and everything needed to run them again.

    Raises:
        UnknownTargetError: If there is no such target.
        InvalidInputError: If the settings do not fit it.
    """
    config = config or AuditConfig()
    tell: Callback = progress or (lambda event: None)
    if seed < 0:
        raise InvalidInputError("seed", f"must not be negative, got {seed}")
    tell(Progress(stage="load"))
    executor = _executor(target, config, seed)
    try:
        session = Session(executor, config, seed, tell)
        session.sample()
    finally:
        executor.close()
    tell(Progress(stage="done"))
    return make_result(session, argv)


def _executor(target: Any, config: AuditConfig, seed: int) -> Executor:
    inline = config.isolation == "inline" or not isinstance(target, str)
    if inline and config.isolation == "process":
        raise InvalidInputError("isolation", "a callable is run inline; name it as module:function")
    return (InlineExecutor if inline else ProcessExecutor)(target, config, seed)
