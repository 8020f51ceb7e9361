"""Studies as their scripts wrote them: one JSON file each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from specverify.errors import UnknownTargetError

__all__ = ["read_studies"]


def read_studies(folder: Path) -> dict[str, dict[str, Any]]:
    """Contents of every study in a folder, by file name; other JSON files are passed over.

    Raises:
        UnknownTargetError: If there is no such folder.
    """
    if not folder.is_dir():
        raise UnknownTargetError("--studies", f"no such folder: {folder}")
    found = {}
    for path in sorted(folder.glob("*.json")):
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except ValueError:
            continue
        if isinstance(content, dict) and isinstance(content.get("study"), str):
            found[path.stem] = content
    return found
