"""Batched verification, row by row, for defects that lie between the rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from specverify._arrays import FloatArray, IntArray
from specverify.bugs.draws import Draws, SampledDraws
from specverify.bugs.staged import PAD, STANDARD, Block, Rows

__all__ = ["Request", "StagedBatch"]


@dataclass(frozen=True, kw_only=True)
class Request:
    """One row of a batch: its own number of drafts.

    Attributes:
        rows: The row's laws.
        drafts: The row's drafted ids.
    """

    rows: Rows
    drafts: list[int]


BatchRule: TypeAlias = Callable[[Sequence[Request], Draws], list[Block]]


def each_row(requests: Sequence[Request], draws: Draws) -> list[Block]:
    """Every row by itself: the right rule."""
    return [STANDARD.block(request.rows, request.drafts, draws) for request in requests]


@dataclass(frozen=True, kw_only=True)
class StagedBatch:
    """A batched verifier whose handling of the rows can be replaced.

    Attributes:
        view: The rows as the implementation sees them.
        rule: Verification of all rows.
    """

    view: Callable[[Sequence[Request]], Sequence[Request]] = tuple
    rule: BatchRule = each_row

    def __call__(
        self,
        target_probs: FloatArray,
        draft_probs: FloatArray,
        draft_tokens: IntArray,
        generator: np.random.Generator,
        *,
        draft_lengths: IntArray | None = None,
    ) -> tuple[IntArray, IntArray]:
        """Verify a batch of blocks.

        Args:
            target_probs: Target rows, shape ``(batch, gamma + 1, vocab)``.
            draft_probs: Draft rows, shape ``(batch, gamma, vocab)``.
            draft_tokens: Drafted ids, shape ``(batch, gamma)``; what lies beyond a row's length
                is not looked at.
            generator: Source of randomness.
            draft_lengths: Drafts of each row, shape ``(batch,)``; ``gamma`` by default.

        Returns:
            Ids ``(batch, gamma + 1)`` padded with -1, and counts of accepted drafts ``(batch,)``.
        """
        size, gamma = draft_tokens.shape
        lengths = np.full(size, gamma) if draft_lengths is None else draft_lengths
        requests = [
            Request(
                rows=Rows(target[:n], draft[:n], target[n]), drafts=[int(t) for t in tokens[:n]]
            )
            for target, draft, tokens, n in zip(
                target_probs, draft_probs, draft_tokens, lengths.tolist(), strict=True
            )
        ]
        return _padded(self.run(requests, SampledDraws(generator)), gamma)

    def run(self, requests: Sequence[Request], draws: Draws) -> list[Block]:
        """Verify with the given draws: sampled or enumerated."""
        return self.rule(self.view(requests), draws)


def _padded(blocks: Sequence[Block], gamma: int) -> tuple[IntArray, IntArray]:
    emitted = np.full((len(blocks), gamma + 1), PAD)
    for row, (ids, _) in enumerate(blocks):
        emitted[row, : len(ids)] = ids
    return emitted, np.array([n_accepted for _, n_accepted in blocks])
