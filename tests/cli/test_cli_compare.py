"""``specverify compare OLD NEW``: exit 1 when something got worse."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from specverify.cli.main import app

PLANTED = Path(__file__).parents[1] / "planted" / "biased_numpy.py"


def run(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    return result.exit_code, result.stdout


def audited(function: str, folder: Path, *options: str) -> Path:
    run(
        "audit",
        f"{PLANTED}:{function}",
        "--gamma",
        "2",
        "--budget",
        "2k",
        "--out",
        folder,
        *options,
    )
    assert (folder / "result.json").is_file()
    return folder


def test_a_build_that_broke(tmp_path: Path) -> None:
    old = audited("correct", tmp_path / "old")
    new = audited("bonus_from_q", tmp_path / "new")
    code, text = run("compare", old, new)
    assert code == 1
    assert "changes for the worse" in text
    code, text = run("compare", new, old / "result.json", "--json")
    record = json.loads(text)
    assert (code, record["worse"]) == (0, 0)
    assert any(change["direction"] == "better" for change in record["changes"])


def test_the_same_audit_twice(tmp_path: Path) -> None:
    old = audited("correct", tmp_path / "old")
    code, text = run("compare", old, old)
    assert code == 0
    assert text.endswith("nothing got worse\n")


def test_no_such_run(tmp_path: Path) -> None:
    assert run("compare", tmp_path / "nosuch", tmp_path)[0] == 2
