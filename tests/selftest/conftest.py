"""A catalog that grows by files written in a test."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from specverify.bugs import catalog

HEADER = """
from specverify.bugs.base import Bug, Effect, Kind, Role, Stage
from specverify.bugs.staged import StagedVerifier
"""


@pytest.fixture
def plant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, str], None]]:
    """Write a module into the catalog; it is gone after the test."""
    folders = list(catalog.__path__)
    monkeypatch.setattr(catalog, "__path__", [*folders, str(tmp_path)])

    def write(module: str, source: str) -> None:
        (tmp_path / f"{module}.py").write_text(HEADER + source)

    yield write
    for path in tmp_path.glob("*.py"):
        sys.modules.pop(f"{catalog.__name__}.{path.stem}", None)
        if hasattr(catalog, path.stem):
            delattr(catalog, path.stem)
