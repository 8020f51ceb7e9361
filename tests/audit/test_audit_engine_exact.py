"""An engine's smallest model, traced: proofs, smallest cases, and what cannot be traced."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch

from specverify.audit.config import AuditConfig, Budget
from specverify.audit.engine_exact import examine
from specverify.audit.exact_record import BIASED, LOSSLESS, REFUSED
from specverify.audit.forms import Completions, EngineInfo
from specverify.audit.run import audit
from specverify.results import Verdict
from specverify.warping import SamplingParams, warp_logits


@dataclass(frozen=True)
class Chain:
    """Draws each token given the one before it; with a fault, from the third token on."""

    vocab: int = 6
    fault: bool = False
    eos: int | None = None
    foreign: bool = False

    def describe(self) -> EngineInfo:
        return EngineInfo(
            name="chain", version="1", vocab_size=self.vocab, eos=self.eos, quick=True
        )

    def smallest(self, vocab_size: int = 3, gamma: int = 1) -> Chain:
        return replace(self, vocab=vocab_size)

    def complete(self, prompt, max_new_tokens, sampling) -> list[int]:
        text = list(prompt)
        while len(text) < len(prompt) + max_new_tokens:
            row = torch.from_numpy(self._row(text[-1], sampling))
            if self.fault and len(text) >= len(prompt) + 2:
                row = row.square() / row.square().sum()
            if self.foreign:
                row = torch.from_numpy(np.random.default_rng(len(text)).dirichlet(row.numpy()))
            text.append(int(torch.multinomial(row, 1)))
            if text[-1] == self.eos:
                break
        return text[len(prompt) :]

    def sample(self, prompt, n, max_new_tokens, sampling, seed) -> Completions:
        tokens = np.full((n, max_new_tokens), -1)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            for row in tokens:
                text = self.complete(prompt, max_new_tokens, sampling)
                row[: len(text)] = text
        return Completions(tokens=tokens)

    def reference(self) -> Chain:
        return self

    def probs(self, prompt, tokens, sampling) -> np.ndarray:
        before = np.concatenate([np.full((len(tokens), 1), prompt[-1]), tokens[:, :-1]], axis=1)
        table = np.array([self._row(i, sampling) for i in range(self.vocab)])
        return table[np.maximum(before, 0)]

    def _row(self, before: int, sampling: SamplingParams) -> np.ndarray:
        logits = np.sin(1.0 + 5.0 * before + 3.0 * np.arange(self.vocab))
        return np.asarray(warp_logits(logits, sampling))


def config(mode: str) -> AuditConfig:
    return AuditConfig(tv=0.1, isolation="inline", mode=mode, budget=Budget(seconds=60))


def checks(engine: Chain, mode: str = "exact"):
    result = audit(engine, config=config(mode))
    return result, {check.name: check for check in result.checks}


def test_a_correct_engine_is_proved_and_sampled_besides() -> None:
    result, found = checks(Chain(), "auto")
    assert found["exact[smallest]"].verdict is Verdict.PASS
    assert found["exact[smallest]"].n == 240
    assert "token[smallest]" not in found
    assert found["token[plain]"].verdict is Verdict.PASS
    assert result.summary.law is Verdict.PASS


def test_a_fault_is_proved_and_its_smallest_case_is_told() -> None:
    result, found = checks(Chain(fault=True), "auto")
    check = found["exact[smallest]"]
    assert (check.verdict, result.summary.law) == (Verdict.FAIL, Verdict.FAIL)
    assert check.diagnosis.position == 2
    assert "of the completion" in check.diagnosis.text
    assert (check.case["vocab_size"], check.case["max_new_tokens"]) == (2, 3)
    distance = sum(max(row["found"] - row["expected"], 0.0) for row in check.case["laws"])
    assert distance == pytest.approx(check.case["tv"], abs=1e-9)
    assert result.summary.headline.endswith("(exact[smallest])")


def test_mode_exact_traces_alone_and_statistical_mode_does_not() -> None:
    _, exact = checks(Chain())
    assert exact["exact[smallest]"].verdict is Verdict.PASS
    assert not any(name.startswith("token[") for name in exact)
    _, sampled = checks(Chain(), "statistical")
    assert not any("smallest" in name for name in sampled)
    assert sampled["token[plain]"].verdict is Verdict.PASS


def test_completions_that_end_are_compared_as_they_are() -> None:
    lossless, law = examine(Chain(vocab=3, eos=1), 3)
    assert lossless.outcome == LOSSLESS
    assert law is not None
    assert {len(text) for text in law.probabilities} == {1, 2, 3}
    wrong, _ = examine(Chain(vocab=3, eos=1, fault=True), 3)
    assert (wrong.outcome, wrong.position) == (BIASED, 2)


def test_randomness_from_elsewhere_proves_nothing() -> None:
    record, law = examine(Chain(vocab=3, foreign=True), 2)
    assert record.outcome in (REFUSED, BIASED)
    assert (law is None) == (record.outcome == REFUSED)
