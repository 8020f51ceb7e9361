"""The speed table: it runs, and only lossless verifiers are timed."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

SPEED = runpy.run_path(str(Path(__file__).resolve().parents[2] / "simulations" / "exact_speed.py"))


def test_the_table_has_a_line_for_each_verifier(capsys: pytest.CaptureFixture[str]) -> None:
    SPEED["main"](["--vocab", "3", "--gamma", "1", "--large-vocab", "60"])
    lines = capsys.readouterr().out.splitlines()
    for name in SPEED["VERIFIERS"]:
        assert sum(line.startswith(name) for line in lines) == 2
