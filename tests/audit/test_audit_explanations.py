"""What an engine's passes say about the law that its drafts really come from."""

from __future__ import annotations

import numpy as np
import pytest

from specverify.audit.forms import Completions, EngineInfo
from specverify.models.tabular import TabularModel
from specverify.results import Verdict
from specverify.sampler.decode import speculative_decode
from specverify.warping import warp_probs

# A flat target that its draft nearly knows: a filter too many or too few costs many acceptances.
TARGET = TabularModel.random(40, 1, np.random.default_rng(1), concentration=3.0)
DRAFT = TARGET.perturbed(np.random.default_rng(2), 0.05)
GAMMA = 4


class Law:
    def __init__(self, model: TabularModel) -> None:
        self._model = model

    def probs(self, prompt, tokens, sampling):
        before = np.column_stack([np.full(len(tokens), prompt[-1]), tokens[:, :-1]])
        return warp_probs(self._model.table[np.maximum(before, 0)], sampling)


class Engine:
    """Filters the target once, as it must, and the draft ``times`` times."""

    def __init__(self, times: int) -> None:
        self._times = times

    def describe(self) -> EngineInfo:
        return EngineInfo(name="tables", version="1", vocab_size=40, gamma=GAMMA)

    def reference(self):
        return Law(TARGET)

    def draft_probs(self, prompt, tokens, sampling):
        return Law(DRAFT).probs(prompt, tokens, sampling)

    def sample(self, prompt, n, max_new_tokens, sampling, seed):
        rng = np.random.default_rng(seed)

        def step(model, times):
            def law(context):
                row = model.next_probs(context)
                for _ in range(times):
                    row = warp_probs(row, sampling)
                return row

            return law

        steps = step(TARGET, 1), step(DRAFT, self._times)
        runs = [
            speculative_decode(np.array(prompt), *steps, GAMMA, max_new_tokens, rng)
            for _ in range(n)
        ]
        return Completions(
            tokens=np.array([tokens for tokens, _ in runs], dtype=np.int64),
            passes=np.array([trace.passes for _, trace in runs], dtype=np.int64),
        )


def test_speculation_that_is_off_is_told(small_audit) -> None:
    class Plain(Engine):
        def sample(self, prompt, n, max_new_tokens, sampling, seed):
            drawn = super().sample(prompt, n, max_new_tokens, sampling, seed)
            return Completions(tokens=drawn.tokens, passes=np.full(n, max_new_tokens))

    result = small_audit(Plain(1))
    assert result.summary.law is Verdict.PASS
    assert [finding.code for finding in result.summary.findings] == ["no-speculation"]


@pytest.mark.parametrize(
    ("times", "codes"), [(0, ["draft-unfiltered"]), (1, []), (2, ["draft-filtered-twice"])]
)
def test_the_filters_of_the_draft_are_told_from_the_passes(small_audit, times, codes) -> None:
    result = small_audit(Engine(times))
    assert result.summary.law is Verdict.PASS
    assert result.summary.efficiency is (Verdict.FAIL if codes else Verdict.PASS)
    assert [finding.code for finding in result.summary.findings] == codes
