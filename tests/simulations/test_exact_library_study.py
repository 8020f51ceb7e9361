"""The study of third-party verifiers, on verifiers of our own that stand in for a library."""

from __future__ import annotations

import importlib.util
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from specverify.exact import enumerate_law
from specverify.sampler.verify import speculative_verify

SIMULATIONS = Path(__file__).resolve().parents[2] / "simulations"
sys.path.insert(0, str(SIMULATIONS))  # as when a study is run as a script
try:
    STUDY = runpy.run_path(str(SIMULATIONS / "exact_libraries.py"))
    CASES = runpy.run_path(str(SIMULATIONS / "exact_library_cases.py"))
finally:
    sys.path.remove(str(SIMULATIONS))
SAMPLES = 3000


def reference() -> Callable[[int], Any]:
    def run(batch: int) -> Any:
        emitted, _ = speculative_verify(CASES["TARGET"], CASES["DRAFT"], CASES["drafts"](1)[0])
        return [torch.as_tensor(emitted).tolist()]

    return run


def drafts_unverified() -> Callable[[int], Any]:
    return lambda batch: CASES["drafts"](batch).tolist()


def noisy() -> Callable[[int], Any]:
    return lambda batch: [[int(torch.randn(3).argmax())]]


def row(make: Callable[[], Callable[[int], Any]]) -> dict[str, Any]:
    case = STUDY["Case"](package="numpy", module="numpy", function="stand-in", make=make)
    found: dict[str, Any] = STUDY["audit_case"](case, SAMPLES)
    assert "stand-in" in STUDY["markdown"]({case.name: found})
    return found


def test_a_right_verifier_is_lossless_and_agrees_with_its_samples() -> None:
    found = row(reference)
    assert (found["verdict"], found["agrees"], found["samples"]) == ("lossless", True, SAMPLES)


def test_unverified_drafts_are_biased_and_still_agree_with_their_samples() -> None:
    found = row(drafts_unverified)
    assert (found["verdict"], found["agrees"]) == ("biased", True)


def test_what_cannot_be_traced_is_refused() -> None:
    found = row(noisy)
    assert found["verdict"] == "refused"
    assert "randn" in found["reason"]


def test_samples_of_other_code_disagree() -> None:
    """Negative control: the law of one verifier, the samples of another."""
    run = reference()
    law = enumerate_law(lambda: run(1)[0])
    counts = STUDY["sampled"](drafts_unverified(), samples=SAMPLES, batch=100)
    assert not STUDY["agreement"](law, counts)["agrees"]


@pytest.mark.skipif(importlib.util.find_spec("flashspec") is not None, reason="is installed here")
def test_a_missing_library_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert STUDY["main"](["--only", "flashspec", "--out", str(tmp_path)]) == {}
    assert "missing: pip install flashspec" in capsys.readouterr().err
