"""The committed reports: each is in the list, and says which command made it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from specverify.report.figures import FIGURES

ROOT = Path(__file__).resolve().parents[2]
REPORTS = ROOT / "reports"
TABLES = sorted(path for path in REPORTS.rglob("*.md") if path.name != "README.md")


def test_the_list_names_every_report_and_nothing_else() -> None:
    listed = set(re.findall(r"`([\w/]+\.(?:json|md|html))`", (REPORTS / "README.md").read_text()))
    there = {
        str(path.relative_to(REPORTS))
        for kind in ("json", "md", "html")
        for path in REPORTS.rglob(f"*.{kind}")
    }
    assert listed == there - {"README.md"}


@pytest.mark.parametrize("table", TABLES, ids=lambda path: str(path.relative_to(REPORTS)))
def test_a_table_says_at_its_top_what_wrote_it(table: Path) -> None:
    top = "\n".join(table.read_text().splitlines()[:5])
    command = re.search(r"`(python|make|specverify) ([\w/.]+)[^`]*`", top)
    assert command is not None
    if command[1] == "python":
        assert (ROOT / command[2]).is_file()


def test_a_figure_says_what_it_shows_and_what_made_it() -> None:
    for kind in FIGURES:
        if kind.study is None:
            assert kind.caption.endswith("Computed from the closed forms.")
            continue
        command = json.loads((REPORTS / f"{kind.study}.json").read_text())["command"]
        assert (ROOT / command.removeprefix("python ")).is_file()
