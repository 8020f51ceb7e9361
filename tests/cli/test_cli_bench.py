"""``specverify bench`` prints, writes, and never fails for being slow."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from specverify.cli.main import app


def test_a_group_is_printed_and_written(tmp_path: Path) -> None:
    arguments = ["bench", "--quick", "--only", "simulation,start-up", "--out", str(tmp_path)]
    shown = CliRunner().invoke(app, arguments)
    assert shown.exit_code == 0, shown.output
    assert "document B's loop" in shown.stdout
    assert "asked: specverify --help: under 0.4 s" in shown.stdout
    content = json.loads((tmp_path / "bench.json").read_text())
    assert [record["group"] for record in content["measurements"]] == ["start-up", "simulation"]
    page = (tmp_path / "bench.md").read_text()
    assert "## Asked" in page
    assert "import specverify: under 0.25 s" in page


def test_json_alone() -> None:
    shown = CliRunner().invoke(app, ["bench", "--quick", "--only", "simulation", "--json"])
    (record,) = json.loads(shown.stdout)["measurements"]
    assert record["sides"]["ours"]["runs"] == 3


def test_an_unknown_group_is_refused() -> None:
    shown = CliRunner().invoke(app, ["bench", "--only", "speed"])
    assert shown.exit_code == 2
    assert "'speed'" in shown.stderr
