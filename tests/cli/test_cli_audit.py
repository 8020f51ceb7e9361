"""``specverify audit``: exit codes, messages, and files that can be read back.

The laws are judged in ``tests/audit``; here a few small audits show what reaches the user.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from typer.testing import CliRunner, Result

from specverify.cli.audit import read_xfails
from specverify.cli.main import app
from specverify.errors import UnknownTargetError
from specverify.report.jsonout import read_result
from specverify.results import Verdict

PLANTED = Path(__file__).resolve().parent.parent / "planted" / "biased_numpy.py"
SMALL = ["--gamma", "3", "--tv", "0.1"]


def audit(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["audit", *map(str, arguments)])


@pytest.fixture(scope="module")
def failed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Result, Path]:
    folder = tmp_path_factory.mktemp("run")
    files = ["--out", folder, "--md", folder / "a.md", "--junit", folder / "deep" / "a.xml"]
    files += ["--html", folder / "a.html"]
    return audit(f"{PLANTED}:resample_from_target", *SMALL, *files), folder


def test_a_right_implementation_exits_0() -> None:
    shown = audit("reference", *SMALL)
    assert shown.exit_code == 0, shown.output
    assert "law exact" in shown.stdout
    assert "loading reference" in shown.stderr


def test_a_biased_implementation_exits_1_and_says_where(failed: tuple[Result, Path]) -> None:
    shown, _ = failed
    assert shown.exit_code == 1
    assert "the law breaks at position 0" in shown.stdout


def test_the_mode_is_the_callers() -> None:
    exact = audit("reference", "--framework", "numpy", "--gamma", "1", "--mode", "exact", "--json")
    assert exact.exit_code == 0, exact.output
    record = json.loads(exact.stdout)
    assert {c["name"]: c["verdict"] for c in record["checks"] if c["family"] == "law"} == {
        "exact[smallest]": "pass",
        "exact[vocab-50257]": "skip",
    }
    assert record["settings"]["mode"] == "exact"


def test_a_failure_shows_its_smallest_case(failed: tuple[Result, Path]) -> None:
    shown, folder = failed
    cases = [check.case for check in read_result(folder).checks if check.case is not None]
    assert "snippet" in cases[0]
    assert cases[0]["snippet"].splitlines()[0] in shown.stdout


def test_every_file_is_written(failed: tuple[Result, Path]) -> None:
    _, folder = failed
    assert read_result(folder).verdict is Verdict.FAIL
    assert (folder / "a.md").read_text().startswith("## Audit of")
    assert ET.parse(folder / "deep" / "a.xml").find(".//failure") is not None
    assert "the law breaks at position 0" in (folder / "a.html").read_text()


def test_json_and_nothing_else_goes_to_stdout() -> None:
    shown = audit("reference", "--gamma", "1", "--budget", "1", "--json", "--seed", "3")
    record = json.loads(shown.stdout)
    assert record["seed"] == 3
    assert record["argv"]


def test_a_budget_that_is_too_small_exits_3() -> None:
    assert audit("reference", "--gamma", "3", "--budget", "1").exit_code == 3
    assert audit("reference", "--gamma", "3", "--budget", "1", "--checks", "none").exit_code == 3


def test_a_declared_failure_that_passes_exits_4(tmp_path: Path) -> None:
    (tmp_path / "xfails").write_text("exact[same]  # known\n")
    assert audit("reference", *SMALL, "--xfails", tmp_path / "xfails").exit_code == 4


def test_a_slower_scheme_is_a_finding_unless_the_standard_is_expected() -> None:
    shown = audit(f"{PLANTED.parent / 'biased.py'}:correct_without_bonus", *SMALL)
    assert shown.exit_code == 0, shown.output
    assert "bonus" in shown.stdout
    strict = audit(
        f"{PLANTED.parent / 'biased.py'}:correct_without_bonus", *SMALL, "--expect", "standard"
    )
    assert strict.exit_code == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nosuch.py:verify"], "no such file: nosuch.py"),
        ([f"{PLANTED}:nosuch"], "has no 'nosuch'"),
        (["nosuchmodule:verify"], "cannot import nosuchmodule"),
        (["unicorn"], "'unicorn' is neither"),
        (["reference", "--gamma", "0"], "--gamma: must be at least 1"),
        (["reference", "--gamma", "77"], "no scenario has"),
        (["reference", "--budget", "soon"], "budget: must look like"),
        (["reference", "--tv", "2"], "tv: must lie in (0, 1)"),
        (["reference", "--false-alarm", "0"], "false_alarm: must lie in (0, 1)"),
        (["reference", "--form", "tree"], "--form: must be one of verify"),
        (["reference", "--framework", "jax"], "--framework: must be one of torch"),
        (["reference", "--declare", "lossy"], "declare: must be lossless or lossy:X"),
        (["reference", "--mode", "guess"], "mode: must be one of auto, exact, statistical"),
        (["reference", "--expect", "fast"], "expect: must be one of"),
        (["reference", "--xfails", "nosuch"], "no such file: nosuch"),
        (["reference", "--workers", "0"], "--workers"),
        (["reference", "--memory-limit", "much"], "--memory-limit: must be a size such as 2G"),
        (["reference", "--seed", "-1"], "--seed"),
        # Said before the audit: its end would be too late.
        (["reference", "--html", "."], "--html: cannot write .: is a directory"),
        (["reference", "--md", f"{PLANTED}/x.md"], "--md: cannot write into"),
        (["reference", "--junit", f"{PLANTED}/x/y.xml"], "--junit: cannot write into"),
        (["reference", "--out", str(PLANTED)], f"{PLANTED} is a file"),
    ],
)
def test_a_mistake_exits_2_and_is_named(arguments: list[str], said: str) -> None:
    shown = audit(*arguments)
    assert shown.exit_code == 2
    assert said in shown.stderr
    assert "Traceback" not in shown.output
    assert shown.stdout == ""
    assert "look 1" not in shown.stderr


def test_a_check_that_does_not_exist_is_said() -> None:
    shown = audit("reference", *SMALL, "--checks", "tokken")
    assert shown.exit_code == 3
    assert shown.stdout.endswith("no check has a name that was asked for\n")


def test_a_file_that_ends_the_process_is_told_with_its_code(tmp_path: Path) -> None:
    path = tmp_path / "ends.py"
    path.write_text("import os\nos._exit(7)\n")
    shown = audit(f"{path}:verify", "--workers", "2")
    assert shown.exit_code == 2
    assert "loading it ended the process: exit code 7" in shown.stderr


def test_an_interrupted_audit_exits_130(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "specverify", "audit", "reference", "--tv", "0.001"]
    own_cache = os.environ | {"XDG_CACHE_HOME": str(tmp_path)}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=own_cache
    ) as process:
        assert process.stderr is not None
        while "look" not in process.stderr.readline():
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        printed, _ = process.communicate()
    assert process.returncode == 130
    assert "interrupted" in printed


def test_expected_failures_are_read(tmp_path: Path) -> None:
    file = tmp_path / "xfails"
    file.write_text("# comment\n\ntoken[*]  # upstream bug\nlength[a]\n")
    assert read_xfails(file) == {"token[*]": "upstream bug", "length[a]": "no reason given"}
    with pytest.raises(UnknownTargetError):
        read_xfails(tmp_path / "nosuch")
