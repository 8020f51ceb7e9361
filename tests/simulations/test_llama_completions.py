"""The timing of llama.cpp: what it counts, and that it would see another law."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "simulations"))

import llama_completions as study

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("xllamacpp") is None,
    reason="xllamacpp is not installed: its wheels are for Linux on x86_64",
)


def test_a_quick_run_counts_what_it_draws(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(study, "QUICK", 240)
    monkeypatch.setattr(study, "TEXTS", 4)
    study.main(["--quick", str(tmp_path / "out.json")])
    report = json.loads((tmp_path / "out.json").read_text())
    rows = {row["mode"]: row for row in report["rows"]}
    assert capsys.readouterr().out.count("completions 240") == len(rows) == 3
    for mode in ("probabilistic", "sample-and-match"):
        assert 0 < rows[mode]["accepted"] < rows[mode]["drafted"]
    assert rows["plain"]["drafted"] == 0
    assert rows["plain"]["cut_short"] == 0
    assert all(row["chi_square_p"] > 1e-6 for row in rows.values())  # fixed seeds


def test_another_law_would_be_seen() -> None:
    engine = study.LlamaCppEngine(mode="plain", slots=study.SLOTS)
    cooler = study.SamplingParams(temperature=0.7)
    tokens = engine.sample(study.PROMPT, 1200, study.LENGTH, cooler, study.SEED).tokens
    assert study.law_of_two(engine, tokens)["chi_square_p"] < 1e-6
    assert tokens.shape == (1200, study.LENGTH)
    assert np.all(tokens >= 0)
