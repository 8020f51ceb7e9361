"""The exact studies: their quick modes, and that their comparisons can fail."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("transformers")

SIMULATIONS = Path(__file__).resolve().parents[2] / "simulations"


@pytest.fixture(scope="module")
def study() -> dict[str, Any]:
    return runpy.run_path(str(SIMULATIONS / "exact_transformers.py"))


@pytest.mark.filterwarnings("ignore")
def test_the_quick_mode_writes_both_reports(study: dict[str, Any], tmp_path: Path) -> None:
    content = study["main"](["--quick", "--out", str(tmp_path)])
    verdicts = {row["setting"]: row["verdict"] for row in content["rows"]}
    assert verdicts.pop("_speculative_sampling, float64") == "lossless"
    assert verdicts.pop("sampling") == "lossless"
    # Lossy by declaration: the negative control.
    assert verdicts.pop("assistant_ensemble_weight 0.5") == "biased"
    assert not verdicts
    assert json.loads((tmp_path / "exact_transformers.json").read_text()) == content
    table = (tmp_path / "exact_transformers.md").read_text()
    assert all(row["setting"] in table for row in content["rows"])


@pytest.mark.filterwarnings("ignore")
def test_the_script_of_a_case_prints_its_bounds(
    study: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    setting = next(s for s in study["SETTINGS"] if s.name == "assistant_ensemble_weight 0.5")
    size = study["Size"](vocab_size=2, length=2, gamma=1)
    row = study["compare"](setting, size)
    exec(study["script"](setting, size), {})
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == f"TvBounds(low={row['tv_low']!r}, high={row['tv_high']!r})"
