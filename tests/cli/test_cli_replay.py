"""``specverify replay``: exit codes, and what is said of a record and of its rerun."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from specverify.cli.main import app
from specverify.report.jsonout import read_result
from specverify.results import Verdict

PLANTED = Path(__file__).resolve().parent.parent / "planted" / "biased_numpy.py"
SMALL = ["--mode", "statistical", "--gamma", "3", "--tv", "0.1", "--workers", "1", "--seed", "3"]


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(app, list(map(str, arguments)))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "mine"
    (folder.parent / "mine.py").write_text(PLANTED.read_text())
    shown = invoke(
        "audit", f"{folder.parent}/mine.py:resample_from_target", *SMALL, "--out", folder
    )
    assert shown.exit_code == 1, shown.output
    return folder


def test_what_failed_is_reproduced_and_shown(run: Path) -> None:
    shown = invoke("replay", run)
    assert shown.exit_code == 0, shown.output
    assert "reproduced exactly, seed 3" in shown.stdout
    rows = [line.split() for line in shown.stdout.splitlines() if "[" in line]
    assert {row[2] for row in rows} == {"fail"}
    recorded = [row[2:] for row in rows if row[1] == "recorded"]
    assert recorded
    assert recorded == [row[2:] for row in rows if row[1] == "replayed"]


def failed_check(run: Path, family: str) -> str:
    failed = [check.name for check in read_result(run).checks if check.verdict is Verdict.FAIL]
    return next(name for name in failed if name.startswith(family))


@pytest.mark.parametrize("where", ["", "result.json"])
def test_one_check_by_its_name(run: Path, where: str) -> None:
    name = failed_check(run, "token[")
    shown = invoke("replay", run / where / name, "--json", "--workers", 1)
    assert shown.exit_code == 0, shown.output
    record = json.loads(shown.stdout)
    assert record["reproduced"] is True
    assert record["seed"] == 3
    (pair,) = record["checks"]
    assert pair["name"] == name
    assert pair["differing"] == []
    assert pair["recorded"]["n"] == pair["replayed"]["n"] > 0


def test_another_seed_says_so(run: Path) -> None:
    # Sampling ended as soon as the tokens' bets sufficed; the trace shows far more than it must.
    shown = invoke("replay", run / failed_check(run, "rule["), "--seed", 4)
    assert shown.exit_code == 0, shown.output
    assert "the verdicts agree, seed 4" in shown.stdout


def test_a_run_or_check_that_is_not_there_exits_2_with_a_suggestion(run: Path) -> None:
    for text, said in (
        (f"{run}x", f"no such run: {run}x; did you mean {run}?"),
        (f"{run.parent}/nothing/alike", "no such run"),
        (f"{run}/tokens[markov]", "did you mean token[markov]"),
    ):
        shown = invoke("replay", text)
        assert shown.exit_code == 2
        assert said in shown.stderr
        assert shown.stdout == ""


def test_a_run_in_which_nothing_failed_exits_3(tmp_path: Path) -> None:
    assert invoke("audit", f"{PLANTED}:correct", *SMALL, "--out", tmp_path).exit_code == 0
    shown = invoke("replay", tmp_path)
    assert shown.exit_code == 3
    assert "nothing to replay" in shown.stderr


def test_an_edited_implementation_exits_1_and_is_told(run: Path) -> None:
    """Last in this file: it edits what the others ran."""
    file = run.parent / "mine.py"
    file.write_text(
        PLANTED.read_text() + "\n\nresample_from_target = correct\n"  # the name is kept
    )
    shown = invoke("replay", run)
    assert shown.exit_code == 1
    assert "changed since: the implementation was edited" in shown.stdout
    assert "differs: verdict" in shown.stdout
    assert shown.stdout.rstrip().endswith("not reproduced, seed 3")
