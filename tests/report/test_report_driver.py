"""The driver of `make report`: what it writes, twice the same, and how it tells of a gap."""

from __future__ import annotations

import runpy
import shutil
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
STUDIES = ("sampled_blocks", "gpt_pair")


@pytest.fixture(scope="module")
def driver() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "simulations" / "make_report.py"))


def test_drawing_all_twice_gives_identical_files(driver: dict[str, Any], tmp_path: Path) -> None:
    folders = [tmp_path / "once", tmp_path / "again"]
    for folder in folders:
        folder.mkdir()
        for name in STUDIES:
            shutil.copy(ROOT / "reports" / f"{name}.json", folder)
        assert driver["draw"](folder) > 0  # the other studies are missing, which is counted
    files = sorted(path.name for path in folders[0].iterdir())
    assert {"explorer.html", "studies.html", "acceptance.svg", "pair_tokens.png"} <= set(files)
    assert files == sorted(path.name for path in folders[1].iterdir())
    for name in files:
        assert (folders[0] / name).read_bytes() == (folders[1] / name).read_bytes(), name


def test_every_quick_study_has_its_script(driver: dict[str, Any]) -> None:
    for name in driver["QUICK_STUDIES"]:
        assert (ROOT / "simulations" / f"{name}.py").is_file()
        assert (ROOT / "reports" / f"{name}.json").is_file()
