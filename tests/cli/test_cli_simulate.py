"""``specverify simulate``: one setting or a grid, as a table or JSON."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from specverify.cli.main import app
from specverify.theory.expected_tokens import expected_accepted_tokens

FEW = ["simulate", "--runs", "200", "--stop", "rounds"]


def run(*arguments: str):
    return CliRunner().invoke(app, [*FEW, *arguments])


def test_one_setting_beside_theory() -> None:
    shown = run("--json", "--seed", "3")
    assert shown.exit_code == 0, shown.output
    found = json.loads(shown.stdout)
    (row,) = found["rows"]
    assert (found["seed"], row["alpha"], row["gamma"]) == (3, 0.8, 4)
    exact = expected_accepted_tokens(0.8, 4)
    assert row["predicted_tokens_per_pass"] == pytest.approx(exact)
    off = (row["tokens_per_pass"] - exact) / row["tokens_per_pass_standard_error"]
    assert abs(off) < 4.9
    assert row["latency_p5"] <= row["latency_p50"] <= row["latency_p95"] <= row["latency_p99"]


def test_a_grid_varies_the_last_parameter_fastest() -> None:
    shown = run("--alpha", "0.5,0.9/0.8", "--gamma", "1-2", "--set", "bonus=true,false", "--json")
    assert shown.exit_code == 0, shown.output
    rows = json.loads(shown.stdout)["rows"]
    assert [(row["alpha"], row["gamma"], row["bonus"]) for row in rows] == [
        (alpha, gamma, bonus)
        for alpha in (0.5, [0.9, 0.8])
        for gamma in (1, 2)
        for bonus in (True, False)
    ]


def test_the_table_names_what_varies() -> None:
    shown = run("--alpha", "0.5,0.8", "--policy", "schedule")
    assert shown.exit_code == 0, shown.output
    head, rows = shown.stdout.split("\n\n", 1)
    assert "policy schedule" in head
    assert "alpha" not in head
    for said in ("alpha", "tokens/pass", "speedup", "accepted/tested", "accepted/drafted", "p95"):
        assert said in rows
    assert " - " in rows  # no closed form of a schedule


def test_recorded_rounds_are_replayed(tmp_path) -> None:
    """Six rounds go around: 2 + 0 + 1 accepted of 6 drafted, whatever the seed."""
    counts, answer = tmp_path / "counts.json", tmp_path / "answer.json"
    counts.write_text("[2, 0, 1]")
    answer.write_text('{"num_spec_steps": 3, "per_step_accepted": [2, 0, 1]}')
    for file in (counts, answer):
        shown = run("--trace", str(file), "--gamma", "2", "--length", "6", "--json")
        assert shown.exit_code == 0, shown.output
        (row,) = json.loads(shown.stdout)["rows"]
        assert (row["tokens_per_pass"], row["accepted_over_drafted"]) == (2.0, 0.5)
        assert row["predicted_tokens_per_pass"] is None
    counts.write_text("{}")
    assert "lists no accepted tokens" in run("--trace", str(counts)).stderr
    counts.write_text("[3]")
    assert "accepted: must lie in 0..2" in run("--trace", str(counts), "--gamma", "2").stderr


def test_the_seed_decides() -> None:
    first, second, other = (run("--json", "--seed", seed).stdout for seed in "112")
    assert first == second != other


def test_results_go_to_a_file_and_a_sweep_goes_on(tmp_path) -> None:
    out, ledger = tmp_path / "deep" / "out.json", tmp_path / "points.jsonl"
    grid = ("--gamma", "1-3", "--resume", str(ledger), "--out", str(out))
    shown = run(*grid)
    assert shown.exit_code == 0, shown.output
    assert len(ledger.read_text().splitlines()) == 4
    before = out.read_text()
    assert run(*grid).exit_code == 0
    assert out.read_text() == before
    other = run(*grid, "--seed", "9")
    assert other.exit_code == 2
    assert "another sweep" in other.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--alpha", "x"], "alpha: must be numbers, got 'x'"),
        (["--alpha", ""], "alpha: needs a value"),
        (["--alpha", "1.5"], "must lie in [0, 1], got 1.5"),
        (["--gamma", "2.5"], "gamma: must be whole numbers, got '2.5'"),
        (["--policy", "luck"], "policy: must be one of fixed, schedule"),
        (["--set", "bonus=maybe"], "bonus: must be true or false"),
        (["--set", "colour=red"], "colour: is no parameter"),
        (["--set", "batch"], "--set: must be NAME=VALUES"),
        (["--executor", "abacus"], "executor: must be one of"),
        (["--alpha", "0.5/0.6", "--process", "beta"], "alpha: must be one number for beta"),
        (["--policy", "optimal", "--timing", "roofline"], "policy: optimal needs"),
        (["--process", "markov", "--alpha", "0.95"], "spread"),
        (["--resume", "."], "--resume: cannot write .: is a directory"),
        (["--out", "."], "--out: cannot write .: is a directory"),
    ],
)
def test_mistakes_exit_2(arguments: list[str], said: str) -> None:
    shown = run(*arguments)
    assert shown.exit_code == 2, shown.output
    assert said in shown.stderr
