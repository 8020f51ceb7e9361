"""Engines that count drafts whose law nobody knows: what they report, and that none is told."""

from __future__ import annotations

import numpy as np
import pytest

from specverify.audit.forms import Completions, EngineInfo
from specverify.results import Verdict
from specverify.warping import warp_probs

LAW = np.array([0.4, 0.3, 0.2, 0.1])


class Law:
    def probs(self, prompt, tokens, sampling):
        return np.broadcast_to(warp_probs(LAW, sampling), (*tokens.shape, 4))


class Copying:
    """Independent tokens; says that a part of them was drafted, from a law that it keeps secret."""

    def __init__(self, drafted: int | None) -> None:
        self._drafted = drafted

    def describe(self) -> EngineInfo:
        return EngineInfo(name="copying", version="1", vocab_size=4)

    def reference(self):
        return Law()

    def sample(self, prompt, n, max_new_tokens, sampling, seed):
        shape = (n, max_new_tokens)
        law = warp_probs(LAW, sampling)
        tokens = np.random.default_rng(seed).choice(4, size=shape, p=law)
        if self._drafted is None:
            return Completions(tokens=tokens)
        drafted = np.full(n, self._drafted)
        passes = max_new_tokens - drafted // 2
        return Completions(tokens=tokens, drafted=drafted, accepted=drafted // 2, passes=passes)


def test_drafts_are_reported_where_none_can_be_predicted(small_audit) -> None:
    result = small_audit(Copying(4))
    assert result.verdict is Verdict.PASS
    assert result.summary.efficiency is Verdict.PASS
    row = result.acceptance["plain"]
    assert row["accepted_over_drafted"] == 0.5
    assert row["tokens_per_pass"] == pytest.approx(12 / 10)
    assert row["drafted"] == 2 * row["accepted"] > 0


def test_that_nothing_was_drafted_is_told(small_audit) -> None:
    result = small_audit(Copying(0))
    assert result.summary.law is Verdict.PASS
    assert result.summary.efficiency is Verdict.FAIL
    assert [finding.code for finding in result.summary.findings] == ["nothing-drafted"]
    assert "not one draft" in result.summary.headline


def test_an_engine_that_counts_nothing_is_not_accused(small_audit) -> None:
    result = small_audit(Copying(None))
    assert result.summary.efficiency is Verdict.SKIP
    assert result.summary.findings == ()


class Plain(Copying):
    """Drafts are said to be as the target's tokens; the arithmetic is rough; nothing is drafted."""

    def __init__(self) -> None:
        super().__init__(0)

    def describe(self) -> EngineInfo:
        return EngineInfo(name="plain", version="1", vocab_size=4, gamma=3, tolerance=2e-3)

    def draft_probs(self, prompt, tokens, sampling):
        return Law().probs(prompt, tokens, sampling)


def test_a_tolerance_hides_no_missing_speculation(small_audit) -> None:
    result = small_audit(Plain())
    assert result.summary.law is Verdict.PASS
    assert result.summary.efficiency is Verdict.FAIL
    codes = [finding.code for finding in result.summary.findings]
    assert codes == ["no-speculation", "nothing-drafted"]


class Slow(Copying):
    def describe(self) -> EngineInfo:
        return EngineInfo(name="slow", version="1", vocab_size=4, longest=3)

    def sample(self, prompt, n, max_new_tokens, sampling, seed):
        assert max_new_tokens <= 3
        return super().sample(prompt, n, max_new_tokens, sampling, seed)


def test_completions_of_a_slow_engine_are_cut(small_audit) -> None:
    result = small_audit(Slow(2))
    assert result.verdict is Verdict.PASS, result.summary.headline
    found = {c.params["length"] for c in result.checks if c.name.startswith("token[")}
    assert found == {3}
    assert result.target["longest"] == 3
