"""``specverify plan`` says how many samples a question needs."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from specverify.cli.main import app
from specverify.stats.power import detectable_tv

ASKED = ["plan", "--vocab", "50", "--tv", "0.02"]


def test_the_planned_samples_find_the_distance() -> None:
    record = json.loads(CliRunner().invoke(app, [*ASKED, "--json"]).stdout)
    n = record["samples"]
    assert detectable_tv(n, 50, 1e-6, 0.9) <= 0.02 < detectable_tv(n - 2, 50, 1e-6, 0.9)


def test_more_tests_need_more_samples() -> None:
    alone, shared = (
        json.loads(CliRunner().invoke(app, [*ASKED, "--tests", tests, "--json"]).stdout)["samples"]
        for tests in ("1", "200")
    )
    assert shared > alone


def test_the_text_names_the_count() -> None:
    shown = CliRunner().invoke(app, ASKED)
    assert shown.exit_code == 0
    assert shown.stdout.partition(" tokens: TV 0.02 over 50 tokens")[1]


@pytest.mark.parametrize(
    "arguments", [["--vocab", "1"], ["--vocab", "9", "--tv", "0"], ["--vocab", "9", "--power", "1"]]
)
def test_nonsense_exits_2(arguments: list[str]) -> None:
    assert CliRunner().invoke(app, ["plan", *arguments]).exit_code == 2
