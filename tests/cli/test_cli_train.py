"""``specverify train`` makes a pair and says how good it is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from specverify.cli.main import app

STEPS = ["--preset", "tiny", "--target-steps", "2", "--draft-steps", "2"]


@pytest.fixture
def text(tmp_path: Path) -> Path:
    file = tmp_path / "text.txt"
    file.write_text("".join(f"line {n} of a text about {n * n} things\n" for n in range(2000)))
    return file


def test_a_pair_is_trained_from_a_file(tmp_path: Path, text: Path) -> None:
    pair = tmp_path / "pair"
    shown = CliRunner().invoke(app, ["train", str(pair), *STEPS, "--corpus", str(text), "--json"])
    assert shown.exit_code == 0, shown.output
    record = json.loads(shown.stdout)
    assert record["corpus"]["name"] == "text.txt"
    assert {model["model"] for model in record["models"]} == {"target", "draft"}
    assert 0 < record["models"][1]["alpha at T=1"] < 1
    assert (pair / "target" / "model.safetensors").is_file()
    assert "loss: target" in shown.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--preset", "huge"], "'huge'"),
        (["--corpus", "nosuch.txt"], "a text file; there is no 'nosuch.txt'"),
        (["--target-steps", "0"], "target-steps"),
    ],
)
def test_mistakes_are_named(arguments: list[str], said: str, tmp_path: Path) -> None:
    shown = CliRunner().invoke(app, ["train", str(tmp_path), *arguments])
    assert shown.exit_code == 2
    assert said in shown.stderr


def test_a_file_in_place_of_the_folder_is_said_before_the_training(text: Path) -> None:
    shown = CliRunner().invoke(app, ["train", str(text)])
    assert shown.exit_code == 2
    assert f"{text} is a file" in shown.stderr
