"""The demo calls an outcome right or wrong as it is, and never green by itself."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from specverify.models.costs import Costs
from specverify.models.measure import Estimate, PairMeasurement
from specverify.report.tables import records_table
from specverify.results import AuditResult, Finding, RunStatus, Summary, Verdict
from specverify.warping import SamplingParams

DEMO = Path(__file__).resolve().parents[2] / "simulations" / "demo.py"


@pytest.fixture(scope="module")
def demo() -> ModuleType:
    spec = importlib.util.spec_from_file_location("specverify_demo", DEMO)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def result(law: Verdict, *codes: str) -> AuditResult:
    summary = Summary(
        law=law,
        efficiency=Verdict.PASS,
        contract=Verdict.PASS,
        headline="",
        findings=tuple(Finding(code=code, text="") for code in codes),
    )
    return AuditResult(
        run_id="a",
        status=RunStatus.COMPLETE,
        verdict=law,
        started="",
        ended="",
        argv=(),
        seed=0,
        environment={},
        target={},
        error_budget={},
        checks=(),
        acceptance={},
        timing={},
        summary=summary,
    )


def test_the_demo_has_a_bug_that_must_fail(demo: ModuleType) -> None:
    laws = [case.law for case in demo.CASES]
    assert laws.count(Verdict.FAIL) == 1
    assert laws.count(Verdict.PASS) == len(laws) - 1


def test_a_case_is_right_only_with_its_law_and_finding(demo: ModuleType) -> None:
    for case in demo.CASES:
        codes = [case.finding] if case.finding else []
        assert case.is_as_it_must_be(result(case.law, *codes))
        for other in {Verdict.PASS, Verdict.FAIL, Verdict.INCONCLUSIVE, Verdict.ERROR} - {case.law}:
            assert not case.is_as_it_must_be(result(other, *codes))
        if case.finding:
            assert not case.is_as_it_must_be(result(case.law, "another-finding"))


def test_the_table_shows_a_wrong_outcome(demo: ModuleType) -> None:
    case = next(case for case in demo.CASES if case.law is Verdict.FAIL)
    row = demo.row(case, result(Verdict.PASS), 1.0)
    assert row["as it must"] == "NO"
    assert records_table([row]).headers[0] == "audit"


def test_a_count_far_from_its_prediction_is_implausible(demo: ModuleType) -> None:
    measured = PairMeasurement(
        gamma=4,
        sampling=SamplingParams(),
        prompts=12,
        passes=500,
        alpha=0.75,
        tokens_per_pass=Estimate(3.1, 3.0, 3.2),
        predicted_tokens_per_pass=Estimate(3.0, 2.9, 3.1),
        iid_tokens_per_pass=3.0,
        costs=Costs(target_step=1.0, target_block=1.5, draft_step=0.2),
        plain_seconds=1.0,
        speculative_seconds=0.8,
        speedup=Estimate(1.2, 1.1, 1.3),
        predicted_speedup=1.3,
    )
    assert demo.is_plausible(measured)
    assert not demo.is_plausible(replace(measured, tokens_per_pass=Estimate(3.3, 3.2, 3.4)))
