"""Tiers: rounds against the standard rule, tokens with one law or two, two samples.

False-alarm level of an audit 1e-6; seeds fixed.
"""

from __future__ import annotations

import numpy as np
import pytest

from specverify.audit.arms import arms_log_e, count_arms
from specverify.audit.blocks import BlockSampler
from specverify.audit.checks.rule import rule_evidence
from specverify.audit.forms import Completions, EngineInfo, Form, Framework
from specverify.audit.observer import InlineWatch
from specverify.audit.scenarios import find
from specverify.audit.tally import Tally
from specverify.audit.targets import resolve
from specverify.audit.tiers import Tier
from specverify.bugs import CONTROLS, ZOO
from specverify.errors import InvalidInputError
from specverify.models.tabular import TabularModel
from specverify.results import Verdict
from specverify.sampler.verify import speculative_verify

LOG_ALARM = np.log(14 * 2e6)
"""The alarm of a whole audit: fourteen scenarios, half of the level."""


def rounds(callable_, n, *, name="mixed", seed=0):
    """Evidence against the standard rule in ``n`` rounds."""
    scenario = find(Form.VERIFY, name)
    target = resolve(callable_, form=Form.VERIFY, framework=Framework.NUMPY)
    sampler = BlockSampler(target, scenario, InlineWatch(10))
    return rule_evidence(scenario, sampler.run(n, np.random.SeedSequence(seed)))


# The bugs of single stages, with the stage that the trace blames.
STRUCTURAL = {
    "resample_from_target": "residual",
    "abs_residual": "residual",
    "accept_below_target": "accept",
    "ratio_swapped": "accept",
    "rejected_zeroed": "residual",
}


@pytest.mark.parametrize("name", STRUCTURAL)
def test_a_stage_is_proved_wrong_within_tens_of_rounds(name) -> None:
    found = [rounds(ZOO[name].callable, 60, seed=seed) for seed in range(5)]
    assert all(evidence.log_e >= LOG_ALARM for evidence in found)
    assert all(STRUCTURAL[name] in evidence.stages for evidence in found)
    assert sum(evidence.stage == STRUCTURAL[name] for evidence in found) >= 4


@pytest.mark.parametrize("name", ["mixed", "same", "disjoint", "near-ties", "markov"])
def test_the_standard_rule_is_not_blamed(name) -> None:
    evidence = rounds(speculative_verify, 1500, name=name)
    assert evidence.log_e < np.log(100)
    assert not any(evidence.impossible.values())


def test_a_bonus_from_the_draft_is_seen_at_the_bonus() -> None:
    evidence = rounds(ZOO["bonus_from_draft"].callable, 400, name="zeros-in-target")
    assert (evidence.log_e, evidence.stage) == (np.inf, "bonus")


def test_blocks_that_are_no_prefix_are_emission() -> None:
    def reversed_blocks(target_probs, draft_probs, draft_tokens, rng: np.random.Generator):
        emitted, _ = speculative_verify(target_probs, draft_probs, draft_tokens, rng)
        return [*draft_tokens[::-1].tolist(), emitted[-1]]

    evidence = rounds(reversed_blocks, 50)
    assert (evidence.log_e, evidence.stage) == (np.inf, "emission")


def test_another_lossless_scheme_is_a_finding(small_audit) -> None:
    result = small_audit(CONTROLS["block_verification"].callable, framework="numpy", gammas=(2,))
    assert (result.verdict, result.summary.law) == (Verdict.PASS, Verdict.PASS)
    assert [finding.code for finding in result.summary.findings] == ["not-standard-rule"]
    (broken, *_) = (c for c in result.checks if c.name.startswith("rule[") and c.verdict == "fail")
    assert broken.params["tier"] == "kernel trace"
    assert broken.message.startswith("kernel trace: not the standard rule")
    assert broken.diagnosis.stage in {"accept", "residual"}


def test_tokens_name_their_tier(small_audit) -> None:
    result = small_audit(speculative_verify, framework="numpy", gammas=(1,), mode="statistical")
    told = {c.name: c.params["tier"] for c in result.checks if "tier" in c.params}
    assert told["token[smallest]"] == told["joint[smallest]"] == Tier.BOTH
    assert told["rule[smallest]"] == Tier.TRACE
    assert all(c.e_value is not None for c in result.checks if c.name.startswith("token["))


TARGET = TabularModel.random(12, 1, np.random.default_rng(1))
OTHER = TARGET.perturbed(np.random.default_rng(2), 0.35)


class Unknown:
    """An engine that nobody knows the law of; its speculative output follows ``model``."""

    def __init__(self, model: TabularModel) -> None:
        self._model = model

    def describe(self) -> EngineInfo:
        return EngineInfo(name="unknown", version="1", vocab_size=12)

    def reference(self) -> None:
        return None

    def sample(self, prompt, n, max_new_tokens, sampling, seed):
        return _draw(self._model, prompt, (n, max_new_tokens), seed)

    def sample_plain(self, prompt, n, max_new_tokens, sampling, seed):
        return _draw(TARGET, prompt, (n, max_new_tokens), seed)


def _draw(model, prompt, shape, seed):
    rng, before = np.random.default_rng(seed), np.full(shape[0], prompt[-1])
    tokens = np.zeros(shape, dtype=np.int64)
    for position in range(shape[1]):
        edges = model.table[before].cumsum(axis=1)
        before = (edges < (rng.random(shape[0]) * edges[:, -1])[:, None]).sum(axis=1)
        tokens[:, position] = before
    return Completions(tokens=tokens)


def test_two_equal_samples_pass_where_they_bound_the_distance(small_audit) -> None:
    result = small_audit(Unknown(TARGET), tv=0.3)
    assert result.verdict is Verdict.PASS
    for check in (c for c in result.checks if c.name.startswith("two-sample[")):
        assert check.params["tier"] == "two samples"
        assert check.tv.high <= 0.3
        assert 0 < check.detectable_tv < 0.5
        assert f"{check.detectable_tv:.3g} would have been found" in check.message


def test_two_equal_samples_say_how_many_are_missing(small_audit) -> None:
    result = small_audit(Unknown(TARGET), tv=0.1)
    assert result.verdict is Verdict.INCONCLUSIVE
    (check, *_) = (c for c in result.checks if c.name.startswith("two-sample["))
    assert "more completions are needed to bound it by 0.1" in check.message


def test_two_samples_of_unequal_laws_fail(small_audit) -> None:
    result = small_audit(Unknown(OTHER), tv=0.3)
    assert result.verdict is Verdict.FAIL
    failed = [c for c in result.checks if c.verdict is Verdict.FAIL]
    assert any(c.name.startswith("two-sample[") and c.e_value > 1e6 for c in failed)


def test_swap_bets_are_calibrated() -> None:
    """Mean at most one, within three standard errors, at 150 pairs of equal samples."""
    values = []
    for seed in range(150):
        tally = Tally()
        for batch in range(10):
            shape, key = (8, 6), 1000 * seed + batch
            arms = tuple(_draw(TARGET, [3], shape, [arm, key]).tokens for arm in range(2))
            count_arms(tally, key, (0, 1), arms)
        values.append(np.exp(arms_log_e(tally)))
    assert np.mean(values) <= 1 + 3 * np.std(values) / np.sqrt(len(values))
    assert np.mean(np.array(values) >= 20) <= 0.1


def test_an_end_is_an_outcome_and_what_follows_is_not() -> None:
    tally = Tally()
    arms = (np.array([[4, -1, -1], [4, 2, 1]]), np.array([[4, 2, 1], [4, 2, -1]]))
    count_arms(tally, 0, (0, 1), arms)
    assert tally.arrays["arms"].sum(axis=(1, 2, 3)).tolist() == [5, 6]


def test_without_plain_output_there_is_nothing_to_compare(small_audit) -> None:
    class Alone(Unknown):
        sample_plain = property()

    with pytest.raises(InvalidInputError, match="no target law"):
        small_audit(Alone(TARGET))
