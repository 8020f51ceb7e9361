"""Where an audit keeps its ledger: a file that is named, or the user's cache."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from specverify.audit.header import Header
from specverify.audit.ledger import Ledger, Record, Unrecorded
from specverify.errors import InvalidInputError

__all__ = ["Storage", "opened"]

_KEPT_SECONDS = 30 * 24 * 3600.0


@dataclass(frozen=True, kw_only=True)
class Storage:
    """Where the ledger lies.

    Attributes:
        path: The file; None for one in the user's cache, which is removed when the audit is
            complete (or nobody went on with it for 30 days), and done without where the cache
            cannot be written or another process runs the same audit.
        fresh: Whether to forget what the file holds.
    """

    path: Path | None = None
    fresh: bool = False


@contextmanager
def opened(storage: Storage | Path | None, header: Header) -> Iterator[Record]:
    """Open the ledger of an audit, and close it in the end.

    Args:
        storage: Where it lies; None for an audit that is not recorded.
        header: What is audited and how.

    Raises:
        InvalidInputError: If the file is of another audit, held by another process, damaged or
            cannot be written, or if nothing tells when the implementation changes.
    """
    ledger = _open(storage, header)
    if ledger is None:
        yield Unrecorded()
        return
    with closing(ledger):
        yield ledger


def _open(storage: Storage | Path | None, header: Header) -> Ledger | None:
    if storage is None:
        return None
    if isinstance(storage, Path):
        storage = Storage(path=storage)
    path, fresh = storage.path, storage.fresh
    if path is None:
        return _open_cached(header, fresh=fresh)
    if header.target["fingerprint"]["source"] is None:
        text = "the implementation has no source file by which a change would be noticed"
        raise InvalidInputError("ledger", text)
    try:
        return Ledger(path, header, fresh=fresh)
    except OSError as error:
        raise InvalidInputError("ledger", f"cannot write {path}: {error.strerror}") from error


def _open_cached(header: Header, *, fresh: bool) -> Ledger | None:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    runs = cache / "specverify" / "runs"
    try:
        _forget_old(runs)
        return Ledger(runs / header.key(), header, fresh=fresh, passing=True)
    except (OSError, InvalidInputError):
        return None


def _forget_old(runs: Path) -> None:
    """Remove what nobody came back for: audits of code that was edited since, mostly."""
    oldest = time.time() - _KEPT_SECONDS
    for ledger in runs.iterdir() if runs.is_dir() else ():
        if ledger.stat().st_mtime < oldest:
            ledger.unlink(missing_ok=True)
