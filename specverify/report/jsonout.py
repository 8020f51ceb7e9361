"""``result.json``: written and read back."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from specverify.errors import InvalidInputError, UnknownTargetError
from specverify.results import SCHEMA_VERSION, AuditResult

__all__ = ["read_result", "render_json", "render_json_list"]


def render_json(result: AuditResult) -> str:
    """An audit as standard JSON (no NaN), indented, ending in a newline."""
    return msgspec.json.format(msgspec.json.encode(result), indent=2).decode() + "\n"


def render_json_list(results: Sequence[AuditResult]) -> str:
    """Audits as one JSON array, otherwise as :func:`render_json`."""
    return msgspec.json.format(msgspec.json.encode(list(results)), indent=2).decode() + "\n"


def read_result(run: Path) -> AuditResult:
    """Read an audit back.

    Args:
        run: A ``result.json`` or the folder that holds it.

    Raises:
        UnknownTargetError: If there is no such file.
        InvalidInputError: If it is not a result of this version of the layout.
    """
    path = run / "result.json" if run.is_dir() else run
    if not path.is_file():
        raise UnknownTargetError("run", f"no such file: {path}")
    try:
        result = msgspec.json.decode(path.read_bytes(), type=AuditResult)
    except msgspec.DecodeError as error:
        raise InvalidInputError("run", f"{path} is not a result.json: {error}") from error
    if result.schema_version != SCHEMA_VERSION:
        raise InvalidInputError(
            "run", f"{path} has schema version {result.schema_version}, not {SCHEMA_VERSION}"
        )
    return result
