"""Files that pytest is run on inside pytest."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

SAMPLE = Path(__file__).resolve().parents[2] / "examples" / "third_party_repo"


@pytest.fixture
def sample_repository(tmp_path: Path) -> Path:
    """A copy of the sample repository, outside this checkout."""
    ignored = shutil.ignore_patterns("__pycache__", ".pytest_cache")
    return Path(shutil.copytree(SAMPLE, tmp_path / "repository", ignore=ignored))
