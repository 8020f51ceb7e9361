"""The scripts under simulations/: each writes the JSON it promises, the same every time."""

from __future__ import annotations

import json
import math
import runpy
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SIMULATIONS = ROOT / "simulations"
STUDIES = {
    "batch_crossover": "predicted_speedup",
    "emitted_length": "exact",
    "finite_length_bias": "whole_exact",
    "gamma_policies": None,
    "heterogeneity": "predicted_tokens_per_pass",
    "speedup_vs_theory": "predicted_speedup",
}
SIMULATED = {"whole_exact": "whole", "exact": "share"}


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


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_writes_flat_rows_the_same_every_time(name, tmp_path, monkeypatch) -> None:
    contents = []
    for output in (tmp_path / "first" / "out.json", tmp_path / "second.json"):
        monkeypatch.setattr(sys, "argv", [name, "--quick", str(output)])
        runpy.run_path(str(SIMULATIONS / f"{name}.py"), run_name="__main__")
        contents.append(output.read_bytes())
    assert contents[0] == contents[1]
    study = json.loads(contents[0])
    assert study["study"] == name
    assert study["command"] == f"python simulations/{name}.py --quick"
    for row in study["rows"]:
        assert list(row) == list(study["columns"])
        assert not any(isinstance(value, dict | list) for value in row.values())


@pytest.mark.parametrize("name", [name for name, exact in STUDIES.items() if exact])
def test_the_reported_study_agrees_with_theory(name) -> None:
    """What is shipped in reports/: nearly all 95 % intervals hold the closed form."""
    rows = json.loads((ROOT / "reports" / f"{name}.json").read_text())["rows"]
    exact = STUDIES[name]
    simulated = SIMULATED.get(exact, exact.removeprefix("predicted_"))
    inside = [row[f"{simulated}_low"] <= row[exact] <= row[f"{simulated}_high"] for row in rows]
    assert sum(inside) >= 0.8 * len(rows)
    for row in rows:
        reach = (row[f"{simulated}_high"] - row[f"{simulated}_low"]) / 2
        assert abs(row[simulated] - row[exact]) < 3 * reach  # 5.9 standard errors


def test_the_gpt_pairs_times_are_kept_apart(tmp_path, monkeypatch) -> None:
    found = []
    for folder in ("first", "second"):
        output = tmp_path / folder / "gpt_pair.json"
        monkeypatch.setattr(sys, "argv", ["gpt_pair", "--quick", str(output)])
        runpy.run_path(str(SIMULATIONS / "gpt_pair.py"), run_name="__main__")
        found.append({path.name: path.read_bytes() for path in output.parent.iterdir()})
    first, second = found
    assert first.keys() == {"gpt_pair.json", "gpt_pair_positions.json", "gpt_pair_times.json"}
    for name in ("gpt_pair.json", "gpt_pair_positions.json"):
        assert first[name] == second[name]
    for row in json.loads(first["gpt_pair_times.json"])["rows"]:
        factors = [value for name, value in row.items() if name.startswith("factor_")]
        assert math.prod(factors) == pytest.approx(row["speedup"])


def test_the_simulator_times_itself(tmp_path, monkeypatch) -> None:
    """That it runs and counts; no duration is asserted."""
    output = tmp_path / "speed.json"
    monkeypatch.setattr(sys, "argv", ["simulator_speed", "--quick", str(output)])
    runpy.run_path(str(SIMULATIONS / "simulator_speed.py"), run_name="__main__")
    rows = json.loads(output.read_text())["rows"]
    assert [row["amount"] for row in rows][:2] == [10**9, 10**6]
    assert all(row["per_second"] == row["amount"] / row["seconds"] for row in rows)
