"""The scripts under simulations/: each writes the JSON it promises, the same every time."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import pytest

SIMULATIONS = Path(__file__).resolve().parents[2] / "simulations"


def test_document_b_study(tmp_path) -> None:
    main = runpy.run_path(str(SIMULATIONS / "document_b_simulator.py"))["main"]
    paths = [tmp_path / "first" / "out.json", tmp_path / "second.json"]
    for path in paths:
        main(path)
    assert paths[0].read_bytes() == paths[1].read_bytes()
    rows = json.loads(paths[0].read_text())["rows"]
    exact = [row["tokens_per_round"]["exact_mean"] for row in rows]
    assert exact == pytest.approx([1.952, 2.325, 2.797, 3.387, 4.114], abs=5e-4)
    apart = [
        row[key]["standard_errors_apart"] for row in rows for key in ("tokens_per_round", "speedup")
    ]
    assert max(map(abs, apart)) < 4
