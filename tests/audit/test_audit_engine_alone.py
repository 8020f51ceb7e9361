"""An engine that fails exactly: beside the same decoded alone, and named by its law."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch

from specverify.audit.config import AuditConfig, Budget
from specverify.audit.engine_exact import examine
from specverify.audit.exact_record import BIASED, LOSSLESS
from specverify.audit.forms import Completions, EngineInfo
from specverify.audit.run import audit
from specverify.results import Verdict

ROWS = torch.tensor([[0.7, 0.3], [0.4, 0.6]], dtype=torch.float64)


@dataclass(frozen=True)
class Rows:
    """A chain of two tokens; in a batch a row reads what its neighbour drew, or not."""

    batch: int = 2
    leaks: bool = True
    wrong_alone: bool = False

    def describe(self) -> EngineInfo:
        return EngineInfo(name="rows", version="1", vocab_size=2, quick=True)

    def smallest(self, vocab_size: int = 2, gamma: int = 1) -> Rows:
        return self

    def alone(self) -> Rows:
        return replace(self, batch=1)

    def complete(self, prompt, max_new_tokens, sampling) -> list[int]:
        texts = [list(prompt) for _ in range(self.batch)]
        for _ in range(max_new_tokens):
            before = [text[-1] for text in texts]
            seen = before[::-1] if self.leaks else before
            for text, last in zip(texts, seen, strict=True):
                law = ROWS[1 - last] if self.wrong_alone else ROWS[last]
                text.append(int(torch.multinomial(law, 1)))
        return texts[0][len(prompt) :]

    def sample(self, prompt, n, max_new_tokens, sampling, seed) -> Completions:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            texts = [self.complete(prompt, max_new_tokens, sampling) for _ in range(n)]
        return Completions(tokens=np.array(texts))

    def reference(self) -> Rows:
        return self

    def probs(self, prompt, tokens, sampling) -> np.ndarray:
        before = np.concatenate([np.full((len(tokens), 1), prompt[-1]), tokens[:, :-1]], axis=1)
        return ROWS.numpy()[before]


def test_a_batch_that_leaks_is_told_from_a_loop_that_is_wrong() -> None:
    leaking, _ = examine(Rows(), 2)
    assert leaking.outcome == BIASED
    assert leaking.position == 1
    assert leaking.remark.startswith("only in batches")
    wrong, _ = examine(Rows(wrong_alone=True), 2)
    assert wrong.remark == "alone as well as in batches"


@pytest.mark.parametrize("batch", [1, 2])
def test_what_is_right_has_no_remark(batch: int) -> None:
    record, _ = examine(Rows(batch=batch, leaks=False), 2)
    assert (record.outcome, record.remark) == (LOSSLESS, "")


def test_an_audit_says_so() -> None:
    config = AuditConfig(tv=0.1, isolation="inline", budget=Budget(seconds=60))
    result = audit(Rows(), config=config)
    check = next(c for c in result.checks if c.name == "exact[smallest]")
    assert check.verdict is Verdict.FAIL
    assert "decoded alone, the completions follow the law exactly" in check.diagnosis.text
    assert "only in batches" in result.summary.headline
    assert (check.case["vocab_size"], check.case["max_new_tokens"]) == (2, 2)


@dataclass(frozen=True)
class Loop(Rows):
    """A chain whose first token is not returned, or is."""

    lost: bool = True
    draft: bool = True

    def describe(self) -> EngineInfo:
        return EngineInfo(name="loop", version="1", vocab_size=2, gamma=1)

    def complete(self, prompt, max_new_tokens, sampling) -> list[int]:
        text = list(prompt)
        for _ in range(max_new_tokens + self.lost):
            text.append(int(torch.multinomial(ROWS[text[-1]], 1)))
        return text[-max_new_tokens:]

    def draft_probs(self, prompt, tokens, sampling) -> np.ndarray | None:
        return np.full((*tokens.shape, 2), 0.5) if self.draft else None


def test_a_lost_first_token_is_named() -> None:
    record, _ = examine(Loop(), 2)
    assert (record.outcome, record.position, record.fits) == (BIASED, 0, ("first_token_lost",))
    assert examine(Loop(lost=False), 2)[0].outcome == LOSSLESS


def test_nothing_is_named_where_the_draft_is_unknown() -> None:
    record, _ = examine(Loop(draft=False), 2)
    assert (record.outcome, record.fits) == (BIASED, None)
    assert examine(Rows(), 2)[0].fits is None
