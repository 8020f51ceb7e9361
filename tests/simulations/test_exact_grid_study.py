"""The grid: references and controls are lossless, bugs lie as far off as the zoo says."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

from specverify.bugs import CONTROLS, LOSSY, ZOO, Effect, Kind

SIMULATIONS = Path(__file__).resolve().parents[2] / "simulations"
sys.path.insert(0, str(SIMULATIONS))  # as when a study is run as a script
try:
    STUDY = runpy.run_path(str(SIMULATIONS / "exact_grid.py"))
    MEMBERS = runpy.run_path(str(SIMULATIONS / "exact_grid_members.py"))
finally:
    sys.path.remove(str(SIMULATIONS))

TRACED = {Kind.VERIFY, Kind.DECODE, Kind.BATCHED}


def holds(content: dict[str, Any]) -> None:
    rows = {row["member"]: row for row in content["rows"]}
    assert [row for row in rows.values() if not row["passed"]] == []
    everyone = [*CONTROLS.values(), *ZOO.values(), *LOSSY.values()]
    wanted = {b.name for b in everyone if b.kind in TRACED}
    wanted -= {b.name for b in ZOO.values() if b.effect is not Effect.LAW}
    assert wanted <= rows.keys()
    # A bug that shows nowhere on the grid would be compared with nothing.
    biased = [row for row in rows.values() if row["role"] in ("bug", "lossy")]
    assert min(row["largest_tv"] for row in biased) > 1e-5


def test_the_small_grid_holds(tmp_path: Path) -> None:
    content = STUDY["main"](["--quick", "--out", str(tmp_path)])
    holds(content)
    assert json.loads((tmp_path / "exact_grid.json").read_text())["rows"] == content["rows"]
    table = (tmp_path / "exact_grid.md").read_text()
    assert all(f"| {row['member']} |" in table for row in content["rows"])


@pytest.mark.study
@pytest.mark.timeout(7200)
def test_the_whole_grid_holds(tmp_path: Path) -> None:
    holds(STUDY["main"](["--out", str(tmp_path)]))


def test_a_member_that_is_not_what_it_claims_fails() -> None:
    """Negative control: a bug in a reference's place, and a law that is not the zoo's."""
    cells = STUDY["grid"](quick=True)
    member, check = MEMBERS["Member"], MEMBERS["block_check"]
    biased = check(ZOO["resample_from_target"].callable, framework="numpy")
    row = STUDY["row_of"](member(name="impostor", role="reference", check=biased), cells)
    assert not row["passed"]
    assert row["worst_deviation"] > 0.01
    content = STUDY["described"](cells) | {"rows": [row], "members": 1}
    assert "FAILED" in STUDY["markdown"](content)


def test_rows_of_the_same_grid_are_kept(tmp_path: Path) -> None:
    options = ["--quick", "--out", str(tmp_path), "--only"]
    STUDY["main"]([*options, "no_bonus"])
    both = STUDY["main"]([*options, "no_bonus", "lenience", "--missing"])
    assert [row["member"] for row in both["rows"]] == ["no_bonus", "lenience"]
    # Of another grid, they are not.
    report = json.loads((tmp_path / "exact_grid.json").read_text())
    report["sizes"] = [[2, 1]]
    (tmp_path / "exact_grid.json").write_text(json.dumps(report))
    alone = STUDY["main"]([*options, "lenience"])
    assert [row["member"] for row in alone["rows"]] == ["lenience"]
