"""``specverify tune``: from numbers, from a measurement, from an engine's log."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from specverify.cli.main import app
from specverify.theory.optimal_gamma import optimal_gamma

LOG = json.dumps(
    {
        "num_spec_steps": 50,
        "num_spec_tokens": 3,
        "num_draft_tokens": 150,
        "num_accepted_draft_tokens": 90,
        "acceptance_histogram": [10, 10, 10, 20],
    }
)


def run(*arguments: str):
    return CliRunner().invoke(app, ["tune", *arguments])


def test_numbers_with_bounds() -> None:
    shown = run("--alpha", "0.8,0.7,0.9", "--c", "0.1,0.05,0.2", "--json")
    assert shown.exit_code == 0, shown.output
    found = json.loads(shown.stdout)
    assert found["gamma"] == optimal_gamma(0.8, 0.1)
    assert found["gamma_low"] == optimal_gamma(0.7, 0.2)
    assert found["gamma_high"] == optimal_gamma(0.9, 0.05)
    assert len(found["curve"]) == 20


def test_the_text_says_range_loss_and_misjudgement() -> None:
    shown = run("--alpha", "0.8,0.7,0.9", "--c", "0.1")
    for said in ("within the bounds", "loses at most", "alpha -0.1", "draft cost x 2"):
        assert said in shown.stdout
    assert "do not speculate" not in shown.stdout
    assert (
        "do not speculate: the best speedup is 0.800" in run("--alpha", "0.2", "--c", "0.5").stdout
    )


def test_a_log_gives_alpha_and_its_bounds(tmp_path) -> None:
    log = tmp_path / "answer.json"
    log.write_text(LOG)
    shown = run(str(log), "--c", "0.1", "--json")
    assert shown.exit_code == 0, shown.output
    found = json.loads(shown.stdout)
    assert found["gamma"] == optimal_gamma(90 / 120, 0.1)
    assert found["gamma_low"] < found["gamma"] < found["gamma_high"]
    assert "as if its 120 tests were independent" in shown.stderr


def test_a_measurement_knows_its_costs(tmp_path) -> None:
    rates = [{"value": 0.8, "low": 0.8, "high": 0.8}] * 4
    record = {
        "gamma": 4,
        "c": 0.1,
        "verify_cost": 1.0,
        "alpha_by_position": rates,
        "pass_cost_bounds": {"value": 1.4, "low": 1.4, "high": 1.4},
    }
    for name, content in {"list": [record], "with costs": {"measurements": [record]}}.items():
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps(content))
        shown = run(str(path), "--json")
        assert shown.exit_code == 0, shown.output
        assert json.loads(shown.stdout)["gamma"] == optimal_gamma(0.8, 0.1)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "--c: is needed"),
        (["--c", "0.1"], "--alpha: is needed, or a FILE"),
        (["--alpha", "0.8,0.9", "--c", "0.1"], "--alpha: must be 0.8 or 0.8,0.75,0.85"),
        (["--alpha", "x", "--c", "0.1"], "--alpha: must be"),
        (["--alpha", "2", "--c", "0.1"], "must lie in [0, 1], got 2.0"),
        (["nosuchfile", "--c", "0.1"], "cannot read nosuchfile"),
    ],
)
def test_mistakes_exit_2(arguments: list[str], said: str) -> None:
    shown = run(*arguments)
    assert shown.exit_code == 2, shown.output
    assert said in shown.stderr


def test_a_line_that_tells_no_alpha_does_not_hide_one_that_does(tmp_path) -> None:
    log = tmp_path / "answer.json"
    log.write_text(LOG)
    alone = run(str(log), "--c", "0.1", "--json")
    mixed = tmp_path / "mixed.jsonl"
    studio = '{"total_draft_tokens_count": 9, "accepted_draft_tokens_count": 5}'
    mixed.write_text(f"{json.dumps(json.loads(LOG))}\n{studio}\n")
    shown = run(str(mixed), "--c", "0.1", "--json")
    assert shown.exit_code == 0, shown.stderr
    assert shown.stdout == alone.stdout


def test_a_log_that_cannot_tell_alpha_is_said(tmp_path) -> None:
    log = tmp_path / "studio.json"
    log.write_text('{"total_draft_tokens_count": 9, "accepted_draft_tokens_count": 5}')
    shown = run(str(log), "--c", "0.1")
    assert shown.exit_code == 2
    assert "lm-studio does not tell alpha" in shown.stderr
