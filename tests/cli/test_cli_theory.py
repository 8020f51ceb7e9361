"""``specverify theory`` prints document A's figures."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from specverify.cli.main import app

ALPHA_85 = ["theory", "--alpha", "0.85", "--c", "0.15"]


def test_the_printed_figures() -> None:
    shown = CliRunner().invoke(app, [*ALPHA_85, "--json"])
    values = json.loads(shown.stdout)
    assert [round(row["tokens_per_pass"], 2) for row in values["rows"]] == [
        1.85, 2.57, 3.19, 3.71, 4.15, 4.53, 4.85, 5.12, 5.35, 5.55,
    ]  # fmt: skip
    assert values["optimal_gamma"] == 6
    assert round(values["rows"][5]["speedup"], 2) == 2.38


def test_the_length_law_sums_to_one_and_has_the_mean() -> None:
    shown = CliRunner().invoke(app, [*ALPHA_85, "--gamma", "4", "--json"])
    (row,) = json.loads(shown.stdout)["rows"]
    masses = row["length_pmf"]
    assert sum(masses) == pytest.approx(1.0, abs=1e-12)
    mean = sum(length * mass for length, mass in enumerate(masses, start=1))
    assert mean == pytest.approx(row["tokens_per_pass"], abs=1e-12)


def test_the_table_is_plain_when_piped() -> None:
    shown = CliRunner().invoke(app, [*ALPHA_85, "--gamma", "6"])
    assert shown.exit_code == 0
    assert "tokens/pass" in shown.stdout
    assert "2.384" in shown.stdout
    assert shown.stdout.isascii()


@pytest.mark.parametrize("alpha", ["-0.1", "1.5", "nan"])
def test_an_impossible_alpha_is_refused(alpha: str) -> None:
    shown = CliRunner().invoke(app, ["theory", f"--alpha={alpha}"])
    assert shown.exit_code == 2
    assert "alpha" in shown.stderr
