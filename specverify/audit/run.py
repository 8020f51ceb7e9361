"""The audit: load, sample, judge, record."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specverify.audit.config import AuditConfig
from specverify.audit.header import make_header
from specverify.audit.launching import launcher
from specverify.audit.progress import Callback, Progress
from specverify.audit.storage import Storage, opened
from specverify.audit.targets import is_recording
from specverify.errors import InvalidInputError
from specverify.results import AuditResult, RunStatus

if TYPE_CHECKING:
    from specverify.audit.executors import Executor
    from specverify.audit.session import Session

__all__ = ["audit", "make_executor"]


def audit(
    target: Any,
    *,
    config: AuditConfig | None = None,
    seed: int = 0,
    progress: Callback | None = None,
    argv: Sequence[str] = (),
    ledger: Path | Storage | None = None,
) -> AuditResult:
    """Audit an implementation of speculative decoding.

    Args:
        target: A name, ``module:function``, ``path/file.py:function``, a callable or an engine.
        config: What to do; the defaults of :class:`AuditConfig` when None.
        seed: Root of every draw.
        progress: Called after every shard.
        argv: The command, for the record.
        ledger: File that keeps every finished shard, so that the same call goes on where an
            earlier one was interrupted or killed; None keeps nothing.

    Returns:
        Verdicts, checks and everything needed to run them again.

    Raises:
        UnknownTargetError: If there is no such target.
        InvalidInputError: If the settings do not fit it, or the ledger is of another audit.
    """
    config = config or AuditConfig()
    tell: Callback = progress or (lambda event: None)
    tell(Progress(stage="load"))
    with (
        closing(make_executor(target, config, seed)) as executor,
        opened(ledger, make_header(executor.target, config, seed)) as record,
    ):
        if record.found:
            tell(Progress(stage="resume", done=sum(done.n for done in record.found)))
        from specverify.audit.session import Session  # heavy: after the workers have started

        result = _sampled(Session(executor, config, seed, tell, record=record), argv)
    tell(Progress(stage="done"))
    return result


def _sampled(session: Session, argv: Sequence[str]) -> AuditResult:
    from specverify.audit.record import make_result

    session.sample()
    result = make_result(session, argv)
    if result.status is RunStatus.COMPLETE:
        session.record.complete()  # once it is judged: an interruption may come until then
    return result


def make_executor(target: Any, config: AuditConfig, seed: int) -> Executor:
    """Load a target where its shards will be run: in workers if it is named, else here."""
    if seed < 0:
        raise InvalidInputError("seed", f"must not be negative, got {seed}")
    inline = config.isolation == "inline" or not isinstance(target, str) or is_recording(target)
    if inline and config.isolation == "process":
        raise InvalidInputError("isolation", "a callable is run inline; name it as module:function")
    # What loads the workers is started first: importing what speaks with them takes a while, too.
    started = None if inline else launcher(target, config.workers)
    from specverify.audit.executors import InlineExecutor, ProcessExecutor

    if started is None:
        return InlineExecutor(target, config, seed)
    return ProcessExecutor(target, config, seed, started)
