"""Block verifiers: right ones pass, every classic bug fails and is told apart.

False-alarm level of an audit 1e-6; seeds fixed.
"""

from __future__ import annotations

import numpy as np
import pytest

from specverify.audit.verdicts import exit_code
from specverify.bugs import CONTROLS, ZOO
from specverify.results import CheckResult, Family, Verdict
from specverify.sampler.verify import speculative_verify


def _failed(result) -> list[CheckResult]:
    return [c for c in result.checks if c.family is Family.LAW and c.verdict is Verdict.FAIL]


@pytest.mark.parametrize("framework", ["numpy", "torch"])
def test_the_reference_passes(small_audit, framework) -> None:
    result = small_audit(speculative_verify, framework=framework, gammas=(2,))
    assert result.verdict is Verdict.PASS
    assert {result.summary.law, result.summary.efficiency, result.summary.contract} == {
        Verdict.PASS
    }
    assert result.summary.findings == ()
    assert exit_code(result) == 0
    tokens = [c for c in result.checks if c.name.startswith("token[")]
    assert all(c.tv.high <= 0.1 and c.detectable_tv < 0.2 for c in tokens)


# Those of the project's foundation (temperature stands below), with the position in the block
# where each must break.
CLASSICS = {
    "resample_from_target": 0,
    "abs_residual": 0,
    "draft_row_off": 0,
    "bonus_from_draft": "last",
    "reused_uniform": 0,
}


@pytest.mark.parametrize("name", CLASSICS)
def test_a_classic_bug_fails_and_is_named(small_audit, name) -> None:
    result = small_audit(ZOO[name].callable, tv=0.03)
    assert result.verdict is Verdict.FAIL
    assert exit_code(result) == 1
    strongest = min(_failed(result), key=lambda check: check.p_value)
    assert strongest.diagnosis.consistent_with == name
    assert strongest.diagnosis.stage == ZOO[name].stage
    position = CLASSICS[name]
    wanted = strongest.params["gamma"] if position == "last" else position
    assert strongest.diagnosis.position == wanted
    assert f"at position {wanted}" in result.summary.headline


def test_a_cold_target_beside_a_warm_draft_fails(small_audit) -> None:
    def cold(target_probs, draft_probs, draft_tokens, generator):
        sharp = target_probs**1.25
        return speculative_verify(
            sharp / sharp.sum(axis=-1, keepdims=True), draft_probs, draft_tokens, generator
        )

    result = small_audit(cold, framework="numpy", tv=0.03)
    assert result.verdict is Verdict.FAIL
    assert min(c.diagnosis.position for c in _failed(result)) == 0
    assert result.summary.efficiency is Verdict.FAIL


def test_a_bug_of_large_vocabularies_gets_no_name_from_small_ones(small_audit) -> None:
    """Blocks that follow the right law as well as a mild bug's are no sign of that bug."""
    wrong = ZOO["resample_from_target"].callable

    def large_alone(target_probs, draft_probs, draft_tokens, generator):
        verify = wrong if target_probs.shape[-1] == 1024 else speculative_verify
        return verify(target_probs, draft_probs, draft_tokens, generator)

    result = small_audit(large_alone, framework="numpy", gammas=(1, 2), tv=0.05)
    assert {c.params["scenario"] for c in _failed(result)} == {"vocab-1024"}
    assert all(c.diagnosis.consistent_with is None for c in _failed(result))


FINDINGS = {
    "no_bonus": "no-bonus-token",
    "sample_and_match": "sample-and-match",
    "accept_target_probability": "sample-and-match",
}


@pytest.mark.parametrize("name", FINDINGS)
def test_a_control_passes_with_a_finding(small_audit, name) -> None:
    result = small_audit(CONTROLS[name].callable)
    assert result.verdict is Verdict.PASS
    assert result.summary.law is Verdict.PASS
    assert result.summary.efficiency is Verdict.FAIL
    assert [finding.code for finding in result.summary.findings] == [FINDINGS[name]]
    strict = small_audit(CONTROLS[name].callable, expect="standard", gammas=(3,))
    assert strict.verdict is Verdict.FAIL


def _no_bonus(target_probs, draft_probs, draft_tokens, generator):
    emitted, _ = speculative_verify(target_probs, draft_probs, draft_tokens, generator)
    kept = emitted[: len(draft_tokens)]
    return kept, len(kept)


def test_document_b_says_what_it_does_differently(small_audit) -> None:
    """No bonus token, and corrections counted as accepted."""
    result = small_audit(_no_bonus, framework="numpy")
    assert result.verdict is Verdict.PASS
    assert "law exact" in result.summary.headline
    assert "no bonus token: tokens/pass follows (1 - a^K)/(1 - a)" in result.summary.headline
    codes = [finding.code for finding in result.summary.findings]
    assert codes == ["no-bonus-token", "accepted-counts-corrections"]
    row = result.summary.findings[0].data["tokens_per_pass"]["markov"]
    assert abs(row["measured"] - row["this_scheme"]) < abs(row["measured"] - row["standard"])


def test_other_randomness_than_the_generators_is_a_finding(small_audit) -> None:
    def unseeded(target_probs, draft_probs, draft_tokens, generator):
        own = np.random.default_rng()
        return speculative_verify(target_probs, draft_probs, draft_tokens, own)

    result = small_audit(unseeded, framework="numpy", gammas=(3,))
    assert result.verdict is Verdict.PASS
    assert result.summary.contract is Verdict.FAIL
    assert [finding.code for finding in result.summary.findings] == ["not-reproducible"]


def test_global_generators_are_seeded_and_put_back(small_audit) -> None:
    def without_generator(target_probs, draft_probs, draft_tokens):
        seed = np.random.randint(2**31)  # noqa: NPY002
        own = np.random.default_rng(seed)
        return speculative_verify(target_probs, draft_probs, draft_tokens, own)

    np.random.seed(5)  # noqa: NPY002
    expected = np.random.random()  # noqa: NPY002
    np.random.seed(5)  # noqa: NPY002
    result = small_audit(without_generator, framework="numpy", gammas=(3,))
    assert np.random.random() == expected  # noqa: NPY002
    assert result.verdict is Verdict.PASS
    assert result.summary.contract is Verdict.PASS


def test_results_are_a_function_of_the_seed(small_audit) -> None:
    one, two, other = (
        small_audit(speculative_verify, framework="numpy", gammas=(3,), seed=seed)
        for seed in (1, 1, 2)
    )
    assert [c.statistic for c in one.checks] == [c.statistic for c in two.checks]
    assert [c.statistic for c in one.checks] != [c.statistic for c in other.checks]


def test_declared_loss_is_judged_by_what_was_declared(small_audit) -> None:
    bug = ZOO["resample_from_target"].callable
    assert small_audit(bug, gammas=(3,), declare="lossy:0.6").verdict is Verdict.PASS
    assert small_audit(bug, gammas=(2,), declare="lossy:0.01").verdict is Verdict.FAIL
