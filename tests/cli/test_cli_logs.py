"""``specverify logs``: the table, the JSON, and exit code 1 for numbers at odds."""

from __future__ import annotations

import json

from typer.testing import CliRunner

from specverify.cli.main import app

LINE = "draft acceptance rate = 0.60000 (   90 accepted /   150 generated)\n"
REQUEST = {
    "spec_verify_ct": 50,
    "spec_num_correct_drafts": 90,
    "spec_num_proposed_drafts": 150,
    "spec_correct_drafts_histogram": [10, 10, 10, 20],
}


def run(*arguments: str, given: str | None = None):
    return CliRunner().invoke(app, ["logs", *arguments], input=given)


def test_the_three_rates_stand_side_by_side(tmp_path) -> None:
    log = tmp_path / "server.log"
    log.write_text(json.dumps(REQUEST) + "\n" + LINE)
    shown = run(str(log))
    assert shown.exit_code == 0, shown.output
    row = next(line for line in shown.stdout.splitlines() if line.startswith("sglang-request"))
    assert "0.750" in row
    assert "0.600  0.800 0.600 0.400" in row
    assert "llama.cpp-log-old: cannot tell steps, gamma, acceptance by position" in shown.stdout


def test_json_from_standard_input_has_records_rates_and_identities() -> None:
    shown = run("-", "--json", given=LINE + LINE)
    assert shown.exit_code == 0, shown.output
    found = json.loads(shown.stdout)
    (pool,) = found["pooled"]
    assert (pool["record"]["accepted"], pool["rates"]["accepted_over_drafted"]) == (180, 0.6)
    assert found["records"][0]["rates"]["conditional"] is None
    assert {"name", "holds", "text"} <= set(found["records"][0]["identities"][0])


def test_numbers_at_odds_are_named_and_exit_1() -> None:
    shown = run("-", given=LINE.replace("0.60000", "0.70000"))
    assert shown.exit_code == 1
    assert "BROKEN llama.cpp-log-old, line 1: rate = accepted/drafted" in shown.stdout


def test_mistakes_exit_2(tmp_path) -> None:
    shown = run(str(tmp_path / "none.log"))
    assert (shown.exit_code, shown.stderr.count("none.log")) == (2, 1)
    shown = run("-", given="nothing to see\n")
    assert (shown.exit_code, "no line, object or metric" in shown.stderr) == (2, True)
