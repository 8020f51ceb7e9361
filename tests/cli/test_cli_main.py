"""The command as users start it: light, polite about mistakes, right exit codes."""

from __future__ import annotations

import subprocess
import sys

import pytest
from typer.testing import CliRunner

from specverify.cli.main import app


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "specverify", *arguments],
        check=False,
        capture_output=True,
        text=True,
    )


def test_help_lists_commands_and_exit_codes() -> None:
    shown = command("--help")
    assert shown.returncode == 0
    for said in ("theory", "ls", "bugs", "report", "train", "Exit codes"):
        assert said in shown.stdout


def test_the_list_of_commands_is_whole_at_eighty_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shown = command("--help")
    assert "..." not in shown.stdout.partition("Commands:")[2]
    assert max(map(len, shown.stdout.splitlines())) <= 80


@pytest.mark.parametrize("heavy", ["numpy", "torch", "scipy", "msgspec", "rich", "transformers"])
def test_help_stays_light(heavy: str) -> None:
    code = f"import sys, specverify.cli.main; sys.exit({heavy!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_version() -> None:
    shown = command("--version")
    assert shown.stdout.startswith("specverify ")


@pytest.mark.parametrize("arguments", [["nonsense"], ["theory"], ["theory", "--alpha", "x"]])
def test_wrong_usage_exits_2(arguments: list[str]) -> None:
    shown = CliRunner().invoke(app, arguments)
    assert shown.exit_code == 2
    assert shown.stdout == ""


def test_a_users_mistake_is_one_line_and_no_traceback() -> None:
    shown = command("theory", "--alpha", "0.8", "--gamma", "0")
    assert shown.returncode == 2
    assert shown.stdout == ""
    assert shown.stderr == "error: --gamma: must be at least 1, got '0'\n"
