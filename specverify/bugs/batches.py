"""Batched verification, row by row, for defects that lie between the rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from specverify._arrays import FloatArray, IntArray
from specverify.bugs.draws import Draws, SampledDraws, enumerate_draws
from specverify.bugs.staged import PAD, STANDARD, Block, Rows

__all__ = ["DISJOINT_ROWS", "BatchRow", "StagedBatch", "batch_law", "each_row"]

DISJOINT_ROWS: Sequence[Rows] = (
    Rows(
        target=np.array([[0.7, 0.3, 0.0, 0.0]]),
        draft=np.array([[0.4, 0.6, 0.0, 0.0]]),
        bonus=np.array([0.2, 0.8, 0.0, 0.0]),
    ),
    Rows(
        target=np.array([[0.0, 0.0, 0.5, 0.5], [0.0, 0.0, 0.9, 0.1]]),
        draft=np.array([[0.0, 0.0, 0.2, 0.8], [0.0, 0.0, 0.6, 0.4]]),
        bonus=np.array([0.0, 0.0, 0.6, 0.4]),
    ),
)
"""Two sequences with one and two drafts and no token in common: a leak shows in the support."""


@dataclass(frozen=True, kw_only=True)
class BatchRow:
    """One row of a batch: its own number of drafts.

    Attributes:
        rows: The row's laws.
        drafts: The row's drafted ids.
    """

    rows: Rows
    drafts: list[int]


BatchRule: TypeAlias = Callable[[Sequence[BatchRow], Draws], list[Block]]


def each_row(entries: Sequence[BatchRow], draws: Draws) -> list[Block]:
    """Every row by itself: the right rule."""
    return [STANDARD.block(entry.rows, entry.drafts, draws) for entry in entries]


@dataclass(frozen=True, kw_only=True)
class StagedBatch:
    """A batched verifier whose handling of the rows can be replaced.

    Attributes:
        view: The rows as the implementation sees them.
        rule: Verification of all rows.
    """

    view: Callable[[Sequence[BatchRow]], Sequence[BatchRow]] = tuple
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
        entries = [
            BatchRow(
                rows=Rows(target[:n], draft[:n], target[n]), drafts=[int(t) for t in tokens[:n]]
            )
            for target, draft, tokens, n in zip(
                target_probs, draft_probs, draft_tokens, lengths.tolist(), strict=True
            )
        ]
        return _padded(self.run(entries, SampledDraws(generator)), gamma)

    def run(self, entries: Sequence[BatchRow], draws: Draws) -> list[Block]:
        """Verify with the given draws: sampled or enumerated."""
        return self.rule(self.view(entries), draws)


def _padded(blocks: Sequence[Block], gamma: int) -> tuple[IntArray, IntArray]:
    emitted = np.full((len(blocks), gamma + 1), PAD)
    for row, (ids, _) in enumerate(blocks):
        emitted[row, : len(ids)] = ids
    return emitted, np.array([n_accepted for _, n_accepted in blocks])


def batch_law(
    batch: StagedBatch, rows: Sequence[Rows] = DISJOINT_ROWS
) -> dict[tuple[tuple[int, ...], ...], float]:
    """Exact joint law of the completions of all rows, drafts drawn from each row's draft.

    Each row's block is completed to its drafts and one more token from its own target rows.

    Args:
        batch: The implementation.
        rows: The laws of each row.

    Returns:
        Probability of every tuple of completions.
    """

    def run(draws: Draws) -> tuple[tuple[int, ...], ...]:
        entries = [
            BatchRow(rows=laws, drafts=[draws.token(law) for law in laws.draft]) for laws in rows
        ]
        blocks = batch.run(entries, draws)
        return tuple(
            _completed(ids, laws, draws) for (ids, _), laws in zip(blocks, rows, strict=True)
        )

    return enumerate_draws(run)


def _completed(ids: list[int], laws: Rows, draws: Draws) -> tuple[int, ...]:
    own = [*laws.target, laws.bonus]
    return (*ids, *(draws.token(law) for law in own[len(ids) :]))
