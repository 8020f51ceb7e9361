"""Last tokens of many blocks on the host: the two rows of each are read once, and nothing else.

A running sum over a long row costs more than all the rest. Sums of stretches are cheap: a stretch
is drawn by them, then a token within it. A row at a time stays in a core's own cache.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from specverify._arrays import FloatArray, IntArray
from specverify.sampler.draws import categorical_from_uniforms, pick_token

__all__ = ["LastRows", "draw_from_stretches", "excess", "is_long", "pick_from_row", "stretch_sums"]

_STRETCH = 256
_LONG = 2048  # shorter rows gain nothing


def is_long(laws: Any) -> bool:
    """Whether the last axis is long enough to be drawn from in two steps."""
    return bool(laws.shape[-1] >= _LONG)


def excess(target: FloatArray, draft: FloatArray, *, out: FloatArray | None = None) -> FloatArray:
    """Positive part of ``target - draft``."""
    weights: FloatArray = np.maximum(target, draft, out=out)
    weights -= draft  # to the last bit the clipped difference, in half the time
    return weights


class LastRows(NamedTuple):
    """Where the last token of each block comes from, in numpy.

    Attributes:
        target_probs: Shape ``(batch, gamma + 1, vocab)``.
        draft_probs: Shape ``(batch, gamma, vocab)``, ``gamma`` at least 1.
        n_accepted: Accepted drafts, shape ``(batch,)``.
        rejected: Whether a draft was rejected, bool, shape ``(batch,)``.
    """

    target_probs: FloatArray
    draft_probs: FloatArray
    n_accepted: IntArray
    rejected: Any

    def draw(self, uniforms: FloatArray) -> IntArray:
        """Correction or bonus of each block, int64, shape ``(batch,)``.

        Args:
            uniforms: Numbers in [0, 1), shape ``(batch,)``.
        """
        sums = self._sums()
        # A rejection without any excess has probability zero, up to rounding: the target's row.
        bare = self.rejected & (sums.sum(-1) <= 0)
        if bare.any():
            return self._replace(rejected=self.rejected & ~bare).draw(uniforms)
        return draw_from_stretches(sums, uniforms, self._stretch)

    def _sums(self) -> FloatArray:
        batch, vocab = self.target_probs.shape[0], self.target_probs.shape[-1]
        room = np.empty(vocab, dtype=np.result_type(self.target_probs, self.draft_probs))
        sums = np.empty((batch, -(-vocab // _STRETCH)))
        ends = zip(self.n_accepted.tolist(), self.rejected.tolist(), strict=True)
        for block, (place, rejected) in enumerate(ends):
            row = self.target_probs[block, place]
            if rejected:
                row = excess(row, self.draft_probs[block, place], out=room)
            stretch_sums(row, out=sums[block])
        return sums

    def _stretch(self, chosen: IntArray) -> FloatArray:
        """Weights of one stretch of each block, shape ``(batch, stretch)``."""
        vocab, gamma = self.target_probs.shape[-1], self.draft_probs.shape[1]
        ids = chosen[:, None] * _STRETCH + np.arange(_STRETCH)
        inside, ids = ids < vocab, np.minimum(ids, vocab - 1)
        blocks, places = np.arange(len(chosen))[:, None], self.n_accepted[:, None]
        target = self.target_probs[blocks, places, ids]
        draft = self.draft_probs[blocks, np.minimum(places, gamma - 1), ids]
        weights = np.where(self.rejected[:, None], excess(target, draft), target)
        return np.where(inside, weights, 0)


def stretch_sums(weights: FloatArray, *, out: FloatArray | None = None) -> FloatArray:
    """Sums of each stretch of a row, float64; the last may be shorter."""
    starts = np.arange(0, len(weights), _STRETCH)
    sums: FloatArray = np.add.reduceat(weights, starts, dtype=np.float64, out=out)
    return sums


def pick_from_row(weights: FloatArray, uniform: float) -> int:
    """The token that :func:`pick_token` gives, in two steps where the row is long.

    Args:
        weights: Nonnegative with a positive sum, numpy, shape ``(vocab,)``.
        uniform: A number in [0, 1).
    """
    if len(weights) < _LONG:
        return pick_token(weights, uniform)
    sums = stretch_sums(weights)
    chosen = pick_token(sums, uniform)
    # The sums that were drawn from: nothing is left over but what lies within the stretch.
    edges = np.cumsum(sums)
    share = (uniform * edges[-1] - (edges[chosen - 1] if chosen else 0.0)) / sums[chosen]
    start = chosen * _STRETCH
    return start + pick_token(weights[start : start + _STRETCH], share)


def draw_from_stretches(
    sums: FloatArray, uniforms: FloatArray, stretch: Callable[[IntArray], FloatArray]
) -> IntArray:
    """Draw a stretch of each row by its sums, then a token within it.

    Args:
        sums: As :func:`stretch_sums` gives them, shape ``(n, stretches)``.
        uniforms: Numbers in [0, 1), shape ``(n,)``.
        stretch: Function from the chosen stretches, shape ``(n,)``, to the weights within.

    Returns:
        Token ids, int64, shape ``(n,)``; never one of weight zero.
    """
    chosen = categorical_from_uniforms(sums, uniforms)
    # The same sums once more, so that nothing is left over but what lies within the stretch.
    edges = np.cumsum(sums, axis=-1)
    rows = np.arange(len(sums))
    before = np.where(chosen > 0, edges[rows, np.maximum(chosen - 1, 0)], 0)
    share = (uniforms * edges[:, -1] - before) / sums[rows, chosen]
    within = categorical_from_uniforms(stretch(chosen), share)
    tokens: IntArray = chosen * _STRETCH + within
    return tokens
