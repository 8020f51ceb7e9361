"""``specverify measure`` prints what was measured beside what was predicted."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from typer.testing import CliRunner

from specverify.cli.main import app
from specverify.models.pairs import shipped_directory

SHORT = ["measure", "--tokens", "12", "--rounds", "1", "--gamma", "2"]


def test_one_record_a_gamma() -> None:
    shown = CliRunner().invoke(app, [*SHORT, "--json"])
    assert shown.exit_code == 0, shown.output
    (record,) = json.loads(shown.stdout)
    assert 1 <= record["tokens_per_pass"]["value"] <= 3
    assert 1 <= record["predicted_tokens_per_pass"]["value"] <= 3
    assert 0 < record["alpha"] < 1
    assert record["speedup"]["value"] > 0
    assert "gamma 2" in shown.stderr
    bounds = record["alpha_bounds"]
    assert bounds["low"] <= record["alpha"] <= bounds["high"]
    assert len(record["alpha_by_position"]) == 2
    product = math.prod(term["factor"] for term in record["terms"])
    assert product == pytest.approx(record["speedup"]["value"])


def test_the_table_has_both_sides() -> None:
    shown = CliRunner().invoke(app, SHORT)
    for said in ("tokens/pass", "predicted", "iid formula", "speedup", "predicted speedup"):
        assert said in shown.stdout
    assert "the 95 % bounds of the prediction" in shown.stdout
    for said in ("token 2", "quarter 4 of text", "cache", "plain overhead", "measured speedup"):
        assert said in shown.stdout


def test_any_two_models_and_batches() -> None:
    folder = shipped_directory()
    names = ["--target", str(folder / "target"), "--draft", str(folder / "draft-d128")]
    shown = CliRunner().invoke(app, [*SHORT, *names, "--batch", "1,2", "--json"])
    assert shown.exit_code == 0, shown.output
    assert "has no tokeniser: 12 prompts of 8 random ids" in shown.stderr
    found = json.loads(shown.stdout)
    assert [(row["batch"], row["gamma"]) for row in found["costs"]] == [(1, 2), (2, 2)]
    assert len(found["measurements"]) == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--gamma", "0"], "--gamma"),
        (["nosuchpair"], "nosuchpair"),
        (["--draft", "nosuchdraft"], "nosuchdraft"),
        (["--dtype", "int8"], "'int8'"),
        (["--temperature", "-1"], "temperature"),
        (["--tokens", "2"], "max_new_tokens"),
        (["--rounds", "0"], "rounds"),
    ],
)
def test_mistakes_exit_2(
    arguments: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shown = CliRunner().invoke(app, ["measure", *arguments])
    assert shown.exit_code == 2
    assert said in shown.stderr
