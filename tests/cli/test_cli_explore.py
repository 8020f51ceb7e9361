"""``specverify explore`` writes one page."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from specverify.cli.main import app
from specverify.report.explorer import explorer_data, render_explorer


def test_the_page_is_written(tmp_path: Path) -> None:
    page = tmp_path / "new" / "explorer.html"
    result = CliRunner().invoke(app, ["explore", "--out", str(page), "--json"])
    assert result.exit_code == 0, result.output
    assert page.read_text(encoding="utf-8") == render_explorer()
    assert json.loads(result.stdout) == explorer_data()


def test_a_place_that_cannot_be_written_exits_2(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = CliRunner().invoke(app, ["explore", "--out", str(tmp_path / "file" / "page.html")])
    assert result.exit_code == 2
    assert "cannot write" in result.stderr
