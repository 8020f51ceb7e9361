"""LitGPT's speculative decoding: one round of it as a block verifier, and its whole loop.

Step functions stand in for its models, behind the cache that its models have: rows are those of
the tokens that were written into the cache, wherever they came from. Everything is drawn from
torch's global generator.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from specverify.adapters.loading import load_module
from specverify.adapters.step_models import Step, StepRows

__all__ = ["LitGPT", "LitGPTRound"]

_MODULE = "litgpt.generate.speculative_decoding"
_START = torch.zeros(1, dtype=torch.int64)


class LitGPTRound:
    """``speculative_decoding``, one round, at temperature 1; one block.

    It draws its drafts by itself: what it is given stands in their place, and everything after
    them is its own.

    Raises:
        MissingDependencyError: If litgpt is not installed.
    """

    def __init__(self) -> None:
        self._module = load_module(_MODULE, "litgpt")

    def __call__(self, target_probs: Tensor, draft_probs: Tensor, draft_tokens: Tensor) -> Tensor:
        """Emitted ids."""
        given = zip(draft_tokens[:, None], draft_probs, strict=True)
        draft_logits, target_logits = torch.zeros(1, 1, 1), target_probs.log()[None]
        with self._drafting(given):
            emitted: Tensor = self._module.speculative_decoding(
                draft_model=lambda **_: draft_logits,
                target_model=lambda **_: target_logits,
                token=_START,
                input_pos=_START.clone(),
                input_pos_maxp1=1,
                speculative_k=len(draft_tokens),
                temperature=1.0,
            )
        return emitted

    @contextmanager
    def _drafting(self, given: Iterator[tuple[Tensor, Tensor]]) -> Iterator[None]:
        """Its ``sample`` answers the given drafts first."""
        own = self._module.sample

        def sample(logits: Tensor, **settings: Any) -> Any:
            return next(given, None) or own(logits, **settings)

        self._module.sample = sample
        try:
            yield
        finally:
            self._module.sample = own


class LitGPT:
    """``generate``, the whole loop, at temperature 1.

    It returns one token fewer than there is room for, or exactly as many: one more is asked for,
    and what is beyond the length is cut.

    Raises:
        MissingDependencyError: If litgpt is not installed.
    """

    def __init__(self) -> None:
        self._generate = load_module(_MODULE, "litgpt").generate

    def __call__(
        self, prompt: Tensor, target_step: Step, draft_step: Step, gamma: int, max_new_tokens: int
    ) -> Tensor:
        """New ids, prompt excluded."""
        tokens, _ = self._generate(
            _Cached(draft_step),
            _Cached(target_step),
            prompt,
            len(prompt) + max_new_tokens + 1,
            temperature=1.0,
            include_prompt=False,
            speculative_k=gamma,
        )
        new: Tensor = tokens[:max_new_tokens]
        return new


class _Cached:
    """A model with a cache: what is written at a position replaces all that stood from there on."""

    max_seq_length = 1 << 30

    def __init__(self, step: Step) -> None:
        self._rows = StepRows(step)
        self._written = torch.zeros(0, dtype=torch.int64)

    def modules(self) -> list[Any]:
        """Its parts, none of which is compiled."""
        return []

    def __call__(
        self, idx: Tensor, input_pos: Tensor, input_pos_maxp1: int | None = None
    ) -> Tensor:
        """Logits of the given tokens, shape ``(1, t, vocab)``."""
        start = int(input_pos[0])
        # A position that nobody wrote holds -1, which no step function takes.
        kept = pad(self._written, (0, start - len(self._written)), value=-1)
        self._written = torch.cat([kept, idx[0]])
        return self._rows(self._written[None])[:, start:]
