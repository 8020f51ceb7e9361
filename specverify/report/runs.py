"""Many audits read back: files, folders that hold one, and folders to be searched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from specverify.errors import InvalidInputError, UnknownTargetError
from specverify.report.jsonout import read_result
from specverify.results import AuditResult

__all__ = ["Runs", "read_runs"]


@dataclass(frozen=True)
class Runs:
    """What was found.

    Attributes:
        results: The audits, in the order of the paths, folders searched by name.
        unreadable: One sentence for each ``result.json`` of a searched folder that is no audit.
    """

    results: list[AuditResult]
    unreadable: list[str]


def read_runs(paths: Sequence[Path]) -> Runs:
    """Read audits.

    Args:
        paths: Each a ``result.json``, a folder that holds one, or a folder to be searched for
            them. A file found by searching may be something else, such as a measurement; one that
            was named must be an audit.

    Raises:
        UnknownTargetError: If a path does not exist or nothing is found below it.
        InvalidInputError: If a named file is not a result of this version of the layout.
    """
    results, unreadable = [], []
    for path in paths:
        if not path.is_dir() or (path / "result.json").is_file():
            results.append(read_result(path))
            continue
        found = sorted(path.rglob("result.json"))
        if not found:
            raise UnknownTargetError("run", f"no result.json in or below {path}")
        for one in found:
            try:
                results.append(read_result(one))
            except InvalidInputError as error:
                unreadable.append(error.problem)
    return Runs(results, unreadable)
