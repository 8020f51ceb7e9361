"""``specverify selftest`` on the command line."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from specverify.bugs import catalog
from specverify.cli.main import app

SABOTAGE = """
from specverify.bugs.base import Bug, Kind, Stage
from specverify.bugs.counters import count

PLANTED = Bug(
    name="planted_counter",
    kind=Kind.COUNTER,
    stage=Stage.COUNTERS,
    mathematics="an honest count",
    expected_check="identities",
    callable=count,
    scene="run",
)
"""


def run(*arguments: str):
    return CliRunner().invoke(app, ["selftest", "--workers", "1", *arguments])


def test_counters() -> None:
    shown = run("--only", "bonus_*counted*")
    assert shown.exit_code == 0
    lines = shown.stdout.splitlines()
    assert lines[0].split()[:3] == ["name", "role", "kind"]
    assert lines[-1] == "2 bugs: 2 fail"
    assert "selftest" in shown.stderr


def test_json_alone() -> None:
    found = json.loads(run("--only", "bonus_from_draft", "--json", "--seed", "2").stdout)
    (row,) = found["rows"]
    assert (found["seed"], found["wrong"], found["summary"]) == (2, [], "1 bug: 1 fail")
    assert (row["verdict"], row["right"], row["named"]) == ("fail", True, "bonus_from_draft")
    assert row["oracle"] < row["fixed_n"]


def test_nothing_to_test_is_wrong_usage() -> None:
    assert run("--only", "unicorn").exit_code == 2


@pytest.fixture
def sabotaged(tmp_path, monkeypatch) -> None:
    (tmp_path / "planted_counters.py").write_text(SABOTAGE)
    monkeypatch.setattr(catalog, "__path__", [*catalog.__path__, str(tmp_path)])


@pytest.mark.usefixtures("sabotaged")
def test_a_miss_is_named_and_exits_1() -> None:
    shown = run("--only", "planted_*")
    assert shown.exit_code == 1
    assert shown.stdout.splitlines()[-1] == "1 bug: 0 fail; wrong: planted_counter"
    listed = CliRunner().invoke(app, ["bugs", "planted_counter"])
    assert "an honest count" in listed.stdout
