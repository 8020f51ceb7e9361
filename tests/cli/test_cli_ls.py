"""``specverify ls`` and ``specverify bugs`` list what there is."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from specverify.bugs import CONTROLS, LOSSY, ZOO
from specverify.cli.main import app


def test_everything_is_listed() -> None:
    found = json.loads(CliRunner().invoke(app, ["ls", "--json"]).stdout)
    assert "reference" in [target["target"] for target in found["targets"]]
    assert {scenario["form"] for scenario in found["scenarios"]} == {"verify", "decode"}


@pytest.mark.parametrize("what", ["targets", "scenarios", "models"])
def test_one_list_alone(what: str) -> None:
    shown = CliRunner().invoke(app, ["ls", what])
    assert shown.exit_code == 0
    assert shown.stdout.startswith(f"{what}\n")
    assert list(json.loads(CliRunner().invoke(app, ["ls", what, "--json"]).stdout)) == [what]


def test_an_unknown_list_is_refused() -> None:
    shown = CliRunner().invoke(app, ["ls", "unicorns"])
    assert shown.exit_code == 2
    assert "'unicorns'" in shown.stderr


def test_every_bug_and_control_is_listed() -> None:
    records = json.loads(CliRunner().invoke(app, ["bugs", "--json"]).stdout)
    assert [record["name"] for record in records] == [*ZOO, *CONTROLS, *LOSSY]
    table = CliRunner().invoke(app, ["bugs"]).stdout
    assert len(table.splitlines()) == len(records) + 1


def test_one_bug_in_full() -> None:
    name = next(iter(ZOO))
    shown = CliRunner().invoke(app, ["bugs", name]).stdout
    assert ZOO[name].mathematics in shown
    assert CliRunner().invoke(app, ["bugs", "no-such-bug"]).exit_code == 2
