"""Exact laws in an audit: what is proved, what is refused, and what is not believed.

No verdict here rests on samples alone, but the confirmations (level 1e-9 each) and the audits of
code that cannot be traced (false-alarm level 1e-6); seeds fixed.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from specverify.audit.config import AuditConfig
from specverify.audit.confirming import LEVEL, confirm
from specverify.audit.exact_stage import exact_batches
from specverify.audit.forms import Form
from specverify.audit.run import audit
from specverify.audit.scenarios import find, scenarios
from specverify.audit.tracing import paths_expected
from specverify.audit.verdicts import exit_code
from specverify.bugs import CONTROLS, ZOO
from specverify.exact.law import ExactLaw, enumerate_law
from specverify.exact.tape import active_tape
from specverify.results import AuditResult, CheckResult, Family, Verdict
from specverify.sampler.batched import verify_blocks
from specverify.sampler.decode import speculative_decode
from specverify.sampler.verify import speculative_verify

HERE = __file__
SMALLEST = ("exact[smallest]", "token[smallest]")


def exact_audit(target: Any, **settings: Any) -> AuditResult:
    """Exact checks alone, in this process."""
    usual = {"mode": "exact", "framework": "numpy", "isolation": "inline", "gammas": (1,)}
    return audit(target, config=AuditConfig(**usual | settings))


def exact_checks(result: AuditResult) -> dict[str, CheckResult]:
    return {str(c.params["scenario"]): c for c in result.checks if c.name.startswith("exact[")}


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


def opaque(target_probs: Any, draft_probs: Any, draft_tokens: Any, generator: Any) -> Any:
    raw = np.random.default_rng(int(generator.bit_generator.random_raw()))
    return speculative_verify(target_probs, draft_probs, draft_tokens, raw)


def test_what_cannot_be_traced_is_sampled_and_the_reason_given() -> None:
    result = exact_audit(opaque, mode="auto", tv=0.1, gammas=(3,))
    assert result.verdict is Verdict.PASS
    for check in exact_checks(result).values():
        assert check.verdict is Verdict.SKIP
        assert "bit_generator" in check.message
        assert f"{HERE}:" in check.params["reason"]
        assert check.message.endswith("sampled instead")
    assert [finding.code for finding in result.summary.findings] == ["not-traced"]
    assert any(c.name.startswith("token[") and c.verdict is Verdict.PASS for c in result.checks)


def test_exact_mode_decides_nothing_where_nothing_is_traced() -> None:
    result = exact_audit(opaque, gammas=(3,))
    assert exit_code(result) == 3
    assert {c.verdict for c in result.checks} == {Verdict.INCONCLUSIVE}
    assert result.timing["calls"] == 0


def two_faced(target_probs: Any, draft_probs: Any, draft_tokens: Any, generator: Any) -> Any:
    """Right while it is watched."""
    if active_tape() is not None:
        return speculative_verify(target_probs, draft_probs, draft_tokens, generator)
    return ZOO["resample_from_target"].callable(target_probs, draft_probs, draft_tokens, generator)


def test_a_law_that_ordinary_calls_do_not_follow_is_not_believed() -> None:
    result = exact_audit(two_faced, mode="auto", gammas=(1, 3), tv=0.1, checks=("exact", "token"))
    assert result.verdict is Verdict.FAIL
    told = exact_checks(result)["zeros-in-target"]
    assert told.verdict is Verdict.SKIP
    assert told.message.startswith("discarded: ")
    assert told.params["p_value"] < LEVEL
    assert "exact-law-discarded" in {finding.code for finding in result.summary.findings}
    failed = {c.name for c in result.checks if c.verdict is Verdict.FAIL}
    assert failed
    assert all(name.startswith("token[") for name in failed)


def crashes_when_traced(
    target_probs: np.ndarray, draft_probs: Any, draft_tokens: Any, generator: Any
) -> Any:
    if active_tape() is not None:
        os._exit(3)
    return speculative_verify(target_probs, draft_probs, draft_tokens, generator)


def hangs_when_traced(
    target_probs: np.ndarray, draft_probs: Any, draft_tokens: Any, generator: Any
) -> Any:
    while active_tape() is not None:
        time.monotonic()
    return speculative_verify(target_probs, draft_probs, draft_tokens, generator)


@pytest.mark.parametrize(
    ("name", "said"),
    [("crashes_when_traced", "exit code 3"), ("hangs_when_traced", "did not return within")],
)
def test_what_ends_the_tracer_does_not_end_the_audit(name: str, said: str) -> None:
    config = AuditConfig(
        framework="numpy", gammas=(1,), tv=0.2, workers=1, time_limit=0.5, checks=SMALLEST
    )
    result = audit(f"{HERE}:{name}", config=config)
    assert result.verdict is Verdict.PASS
    assert said in exact_checks(result)["smallest"].params["reason"]


def rejection_sampling(
    target_probs: Any, draft_probs: Any, draft_tokens: Any, generator: Any
) -> Any:
    """The residual by rejection: no path is the longest one."""
    for place, token in enumerate(draft_tokens.tolist()):
        target, draft = target_probs[place], draft_probs[place]
        if generator.random() >= target[token] / draft[token]:
            while True:
                drawn = generator.choice(len(target), p=target)
                if generator.random() * target[drawn] < target[drawn] - draft[drawn]:
                    return [*draft_tokens[:place].tolist(), int(drawn)]
    last = generator.choice(target_probs.shape[1], p=target_probs[-1])
    return [*draft_tokens.tolist(), int(last)]


def test_a_loop_that_chance_alone_ends_is_refused() -> None:
    check = exact_checks(exact_audit(rejection_sampling, gammas=(2,), checks=("exact[near-ties]",)))
    assert check["near-ties"].verdict is Verdict.INCONCLUSIVE
    assert "a loop that chance alone ends" in check["near-ties"].message


def test_a_call_that_hangs_in_this_process_is_refused() -> None:
    result = exact_audit(hangs_when_traced, time_limit=0.3, checks=SMALLEST)
    assert "did not return within" in exact_checks(result)["smallest"].params["reason"]


def raises_when_traced(
    target_probs: Any, draft_probs: Any, draft_tokens: Any, generator: Any
) -> Any:
    if active_tape() is not None:
        raise RuntimeError("not here")
    return speculative_verify(target_probs, draft_probs, draft_tokens, generator)


def test_exceptions_under_the_tracer_alone_are_no_failure() -> None:
    check = exact_checks(exact_audit(raises_when_traced))["smallest"]
    assert check.verdict is Verdict.INCONCLUSIVE


def test_statistical_audits_trace_nothing() -> None:
    result = exact_audit(speculative_verify, mode="statistical", tv=0.2, checks=SMALLEST)
    assert exact_checks(result) == {}


def test_only_the_checks_asked_for_are_traced() -> None:
    config = AuditConfig(checks=("exact[markov]",))
    chosen = exact_batches(scenarios(Form.VERIFY), config)
    assert [[task.scenario for task in batch] for batch in chosen] == [["markov"]]
    assert not exact_batches(scenarios(Form.VERIFY), AuditConfig(checks=("token",)))


def test_cheap_scenarios_come_first_and_together() -> None:
    cheap, rest = exact_batches(scenarios(Form.VERIFY), AuditConfig())
    sizes = [paths_expected(find(Form.VERIFY, task.scenario)) for task in [*cheap, *rest]]
    assert sizes == sorted(sizes)
    assert "mixed" in {task.scenario for task in rest}


def test_a_declared_distance_is_compared_with_the_exact_one() -> None:
    bug = ZOO["resample_from_target"].callable
    assert exact_audit(bug, declare="lossy:0.1").verdict is Verdict.PASS
    assert exact_audit(bug, declare="lossy:0.01").verdict is Verdict.FAIL


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


def law_of(*masses: float, unexplored: float = 0.0) -> ExactLaw:
    law = enumerate_law(lambda: active_tape().choose(masses, "token"))  # type: ignore[union-attr]
    law = law.map(lambda token: (token,))
    return law if not unexplored else _partly(law, unexplored)


def _partly(law: ExactLaw, share: float) -> ExactLaw:
    kept = {outcome: mass * (1 - share) for outcome, mass in law.probabilities.items()}
    return ExactLaw(
        probabilities=kept,
        paths=law.paths,
        runs=law.runs,
        unexplored_mass=share,
        exceptions={},
        slack=0.0,
        seconds=0.0,
    )


def test_confirmation_is_valid_and_sharp() -> None:
    rng = np.random.default_rng(0)
    sample = [(int(token),) for token in rng.choice(3, 500, p=[0.5, 0.3, 0.2])]
    assert confirm(law_of(0.5, 0.3, 0.2), sample) > 0.01
    assert confirm(law_of(0.2, 0.3, 0.5), sample) < LEVEL
    assert confirm(law_of(0.5, 0.5), sample) < LEVEL  # a token that the law never emits
    assert confirm(law_of(0.5, 0.3, 0.2, unexplored=0.3), sample) > 0.01
    assert confirm(law_of(0.1, 0.1, 0.8, unexplored=0.1), sample) < LEVEL
