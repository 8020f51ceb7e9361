"""Exact laws in an audit: what is proved, and what a failure shows.

Samples only confirm what was traced, at level 1e-9 a scenario; seeds fixed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from exact_for_tests import exact_audit, exact_checks

from specverify.audit.config import AuditConfig
from specverify.audit.confirming import LEVEL
from specverify.audit.exact_stage import exact_batches
from specverify.audit.forms import Form
from specverify.audit.run import audit
from specverify.audit.scenarios import find, scenarios
from specverify.audit.tracing import paths_expected
from specverify.audit.verdicts import exit_code
from specverify.bugs import CONTROLS, ZOO
from specverify.results import Family, Verdict
from specverify.sampler.batched import verify_blocks
from specverify.sampler.decode import speculative_decode
from specverify.sampler.verify import speculative_verify

SMALLEST = ("exact[smallest]", "token[smallest]")


def test_the_reference_is_proved_and_needs_no_samples_of_its_law() -> None:
    result = exact_audit(speculative_verify, mode="auto", gammas=(3,))
    assert result.verdict is Verdict.PASS
    checks = exact_checks(result)
    assert len(checks) == 4
    for check in checks.values():
        assert check.verdict is Verdict.PASS
        assert check.tv.high < 1e-12 == check.params["tolerance"]
        assert check.tv.confidence == 1
        assert check.params["explored"] == pytest.approx(1, abs=1e-12)
        assert check.n == 750  # what confirmed it, over all scenarios 3,000
        assert check.params["p_value"] > LEVEL
        assert check.message.startswith("exact: total variation ")
    assert f"({checks['one-hot'].params['paths']:,} paths)" in checks["one-hot"].message
    assert not any(c.name.startswith(("token[", "joint[")) for c in result.checks)
    assert "proved on 4 scenarios" in result.summary.headline
    lengths = [c for c in result.checks if c.name.startswith("length[")]
    assert all("exactly" in c.message and c.tv.high < 1e-12 for c in lengths)


def test_controls_are_proved() -> None:
    for control in CONTROLS.values():
        result = exact_audit(control.callable, form=str(control.kind), checks=SMALLEST)
        check = exact_checks(result)["smallest"]
        assert check.verdict is Verdict.PASS, control.name
        assert check.tv.high < 1e-12


@pytest.mark.parametrize(
    ("form", "code"), [("batched", verify_blocks), ("decode", speculative_decode)]
)
def test_references_of_other_forms_are_proved(form: str, code: Any) -> None:
    result = exact_audit(code, form=form)
    assert result.verdict is Verdict.PASS
    assert exact_checks(result)["smallest"].tv.high < 1e-12


def test_float32_rows_are_gated_at_their_rounding() -> None:
    check = exact_checks(exact_audit(speculative_verify, framework="torch"))["smallest"]
    assert check.verdict is Verdict.PASS
    assert 0 < check.tv.high < 1e-6 == check.params["tolerance"]


def test_float32_inside_is_no_failure_and_is_told() -> None:
    def narrow(target_probs: Any, draft_probs: Any, draft_tokens: Any, generator: Any) -> Any:
        rows = [np.float64(np.float32(side)) for side in (target_probs, draft_probs)]
        rows = [side / side.sum(axis=-1, keepdims=True) for side in rows]
        return speculative_verify(*rows, draft_tokens, generator)

    check = exact_checks(exact_audit(narrow))["smallest"]
    assert check.verdict is Verdict.PASS
    assert 1e-12 < check.tv.low < 1e-6
    assert "within rounding to float32" in check.message


# Where samples are blind: some 1e-4 of total variation.
@pytest.mark.parametrize("name", ["draft_in_float16", "draft_in_bfloat16", "silent_last_id"])
def test_rounding_bugs_fail(name: str) -> None:
    bug = ZOO[name]
    result = exact_audit(bug.callable, mode="auto", form=str(bug.kind))
    assert result.verdict is Verdict.FAIL
    check = exact_checks(result)["smallest"]
    assert check.verdict is Verdict.FAIL
    assert 3e-5 < check.tv.low < 1e-3


def test_a_bias_fails_at_once_with_its_smallest_case() -> None:
    bug = ZOO["resample_from_target"]
    result = exact_audit(bug.callable, mode="auto", gammas=(1, 2))
    assert exit_code(result) == 1
    failed = [c for c in result.checks if c.verdict is Verdict.FAIL and c.family is Family.LAW]
    assert failed
    for check in failed:
        assert check.name.startswith("exact[")
        assert check.diagnosis.consistent_with == "resample_from_target"
        assert check.diagnosis.stage == "residual"
        assert check.diagnosis.position == 0
    (case,) = [check.case for check in failed if check.case is not None]
    assert case["kind"] == "counterexample"
    assert np.shape(case["target_probs"]) == (2, 2)
    assert np.shape(case["draft_probs"]) == (1, 2)
    assert case["tv"] == 0.25
    snippet = case["snippet"].replace("verify = ...", "verify = implementation")
    with pytest.raises(AssertionError, match="TvBounds"):
        exec(snippet, {"implementation": bug.callable})
    again = exact_audit(bug.callable, mode="auto", gammas=(1, 2))
    assert [c.case for c in exact_checks(again).values()] == [
        c.case for c in exact_checks(result).values()
    ]


def test_a_case_without_a_smaller_one_is_the_scenario() -> None:
    def biased(target_probs: Any, draft_probs: Any, draft_tokens: Any, generator: Any) -> Any:
        emitted, count = speculative_verify(target_probs, draft_probs, draft_tokens, generator)
        return (draft_tokens if target_probs[0, 0] == here else emitted), count

    here = find(Form.VERIFY, "smallest").chain.target[0, 0, 0]
    result = exact_audit(biased)
    case = exact_checks(result)["smallest"].case
    assert case["kind"] == "scenario"
    assert np.shape(case["target_probs"]) == (2, 2)


def leaking(target_probs: Any, draft_probs: Any, draft_tokens: Any, generator: Any) -> Any:
    """Right for a batch of one; else the last row's bonus comes from the row before."""
    rows = target_probs.copy()
    rows[1:, -1] = target_probs[:-1, -1]
    return verify_blocks(rows, draft_probs, draft_tokens, generator)


def test_rows_that_leak_into_each_other_are_seen() -> None:
    result = exact_audit(leaking, form="batched")
    assert exact_checks(result)["smallest"].verdict is Verdict.FAIL


def test_statistical_audits_trace_nothing() -> None:
    result = exact_audit(speculative_verify, mode="statistical", tv=0.2, checks=SMALLEST)
    assert exact_checks(result) == {}


def test_only_the_checks_asked_for_are_traced() -> None:
    config = AuditConfig(checks=("exact[markov]",))
    chosen = exact_batches(scenarios(Form.VERIFY), config)
    assert [[task.scenario for task in batch] for batch in chosen] == [["markov"]]
    assert not exact_batches(scenarios(Form.VERIFY), AuditConfig(checks=("token",)))


def test_cheap_scenarios_come_first_and_together() -> None:
    tiny, small, large = exact_batches(scenarios(Form.VERIFY), AuditConfig())
    tasks = [*tiny, *small, *large]
    sizes = [paths_expected(find(Form.VERIFY, task.scenario)) for task in tasks]
    assert sizes == sorted(sizes)
    assert {"smallest", "near-ties"} <= {task.scenario for task in tiny}
    assert "mixed" in {task.scenario for task in large}


def test_a_declared_distance_is_compared_with_the_exact_one() -> None:
    bug = ZOO["resample_from_target"].callable
    admitted = exact_audit(bug, declare="lossy:0.1")
    assert admitted.verdict is Verdict.PASS
    assert admitted.summary.headline.startswith("law within the declared total variation of 0.1")
    assert exact_audit(bug, declare="lossy:0.01").verdict is Verdict.FAIL


def _in_half_precision(target_probs, draft_probs, draft_tokens, rng: np.random.Generator):
    target, draft = (rows.astype(np.float16).astype(float) for rows in (target_probs, draft_probs))
    target, draft = (rows / rows.sum(axis=-1, keepdims=True) for rows in (target, draft))
    return speculative_verify(target, draft, draft_tokens, rng)


def test_lengths_may_be_off_by_a_declared_distance() -> None:
    """Rounding to float16 shifts them by less than 0.001: no loss of speed."""
    admitted = exact_audit(_in_half_precision, declare="lossy:0.001")
    assert (admitted.verdict, admitted.summary.efficiency) == (Verdict.PASS, Verdict.PASS)
    stricter = exact_audit(_in_half_precision, declare="lossy:0.00001")
    assert stricter.summary.efficiency is Verdict.FAIL


def test_expected_failures_go_by_the_name_of_the_check() -> None:
    bug = ZOO["resample_from_target"].callable
    reasons = {"exact": "known"}
    assert exit_code(exact_audit(bug, expected_failures=reasons)) == 0
    assert exit_code(exact_audit(speculative_verify, expected_failures=reasons)) == 4


def test_a_slower_scheme_is_known_exactly() -> None:
    result = exact_audit(CONTROLS["no_bonus"].callable)
    assert result.verdict is Verdict.PASS
    length = next(c for c in result.checks if c.name == "length[smallest]")
    assert length.verdict is Verdict.FAIL
    assert "tokens/pass 1 exactly" in length.message


def test_traced_shards_are_kept_in_the_ledger(tmp_path: Path) -> None:
    calls = 0

    def counted(target_probs: Any, draft_probs: Any, draft_tokens: Any, generator: Any) -> Any:
        nonlocal calls
        calls += 1
        return speculative_verify(target_probs, draft_probs, draft_tokens, generator)

    config = AuditConfig(mode="exact", framework="numpy", isolation="inline", gammas=(1,))
    first = audit(counted, config=config, ledger=tmp_path / "ledger")
    spent, calls = calls, 0
    again = audit(counted, config=config, ledger=tmp_path / "ledger")
    assert spent > 1000
    assert calls == 0
    assert first.checks == again.checks
