"""Last tokens of many blocks on the host: the two rows of each are read once, and nothing else.

A running sum over a long row costs more than all the rest. Sums of stretches are cheap: a stretch
is drawn by them, then a token within it. A few blocks at a time stay in a core's own cache.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from specverify._arrays import is_torch, namespace
from specverify.sampler.draws import categorical_from_uniforms

__all__ = ["LastRows", "draw_by_stretches", "draw_from_stretches", "is_long", "stretch_sums"]

_STRETCH = 256
_LONG, _MANY = 4096, 8  # shorter or fewer rows gain nothing
_NUMBERS_AT_ONCE = 1 << 18  # of each law: a megabyte in float32


def is_long(laws: Any) -> bool:
    """Whether laws ``(batch, rows, vocab)`` are many, of long rows, and on the host."""
    on_host = str(getattr(laws, "device", "cpu")) == "cpu"
    return on_host and laws.shape[0] >= _MANY and laws.shape[-1] >= _LONG


class LastRows(NamedTuple):
    """Where the last token of each block comes from.

    Attributes:
        target_probs: Shape ``(batch, gamma + 1, vocab)``.
        draft_probs: Shape ``(batch, gamma, vocab)``, ``gamma`` at least 1.
        n_accepted: Accepted drafts, shape ``(batch,)``.
        rejected: Whether a draft was rejected, bool, shape ``(batch,)``.
    """

    target_probs: Any
    draft_probs: Any
    n_accepted: Any
    rejected: Any

    def draw(self, uniforms: Any) -> Any:
        """Correction or bonus of each block, int64, shape ``(batch,)``.

        Args:
            uniforms: Numbers in [0, 1), shape ``(batch,)``.
        """
        sums = self._sums()
        # A rejection without any excess has probability zero, up to rounding: the target's row.
        bare = self.rejected & (sums.sum(-1) <= 0)
        if bool(bare.any()):
            return self._replace(rejected=self.rejected & ~bare).draw(uniforms)
        return draw_from_stretches(sums, uniforms, self._stretch)

    def _sums(self) -> Any:
        xp = namespace(self.target_probs)
        sums = xp.empty(
            (len(self.n_accepted), -(-self.target_probs.shape[-1] // _STRETCH)), dtype=xp.float64
        )
        target, draft = _Rows.of(self.target_probs, self.n_accepted), self._draft_rows()
        for blocks, subtracted in ((self.rejected, draft), (~self.rejected, None)):
            for some in _groups(xp.nonzero(blocks)[0], self.target_probs.shape[-1]):
                excess = target.take(some)
                if subtracted is not None:
                    excess -= subtracted.take(some)
                    excess = _positive_part(excess)
                sums[some] = stretch_sums(target.widened(excess))
        return sums

    def _draft_rows(self) -> _Rows:
        xp = namespace(self.draft_probs)
        return _Rows.of(
            self.draft_probs, xp.clip(self.n_accepted, max=self.draft_probs.shape[1] - 1)
        )

    def _stretch(self, chosen: Any) -> Any:
        """Weights of one stretch of each block, shape ``(batch, stretch)``."""
        xp = namespace(self.target_probs)
        vocab = self.target_probs.shape[-1]
        ids = chosen[:, None] * _STRETCH + xp.arange(_STRETCH)
        inside, ids = ids < vocab, xp.clip(ids, max=vocab - 1)
        target = _Rows.of(self.target_probs, self.n_accepted).tokens(ids)
        draft = xp.where(self.rejected[:, None], self._draft_rows().tokens(ids), 0)
        return xp.where(inside, xp.clip(target - draft, min=0), 0)


class _Rows(NamedTuple):
    """One row of each block, with room to copy a few to."""

    flat: Any
    index: Any
    room: Any
    wide: Any

    @classmethod
    def of(cls, laws: Any, places: Any) -> _Rows:
        """Row ``places[b]`` of block ``b`` of laws ``(batch, rows, vocab)``."""
        xp = namespace(laws)
        blocks, vocab = xp.arange(laws.shape[0]), laws.shape[-1]
        if _is_contiguous(laws) and laws.dtype.itemsize >= 4:
            flat, index = xp.reshape(laws, (-1, vocab)), blocks * laws.shape[1] + places
        else:
            flat, index = laws[blocks, places], blocks
        if flat.dtype.itemsize < 4:
            flat = xp.astype(flat, xp.float32)
        shape = _group_size(vocab), vocab
        wide = xp.empty(shape, dtype=xp.float64)
        return cls(flat, index, xp.empty(shape, dtype=flat.dtype), wide)

    def take(self, blocks: Any) -> Any:
        """The rows of some blocks, in the room."""
        room, index = self.room[: len(blocks)], self.index[blocks]
        if not is_torch(room):
            return np.take(self.flat, index, axis=0, out=room, mode="clip")
        import torch

        return torch.index_select(self.flat, 0, index, out=room)

    def widened(self, rows: Any) -> Any:
        """A few rows in float64."""
        wide = self.wide[: len(rows)]
        wide[...] = rows
        return wide

    def tokens(self, ids: Any) -> Any:
        """Some tokens' numbers in each block's row; ids have shape ``(batch, n)``."""
        xp = namespace(self.flat)
        places = self.index[:, None] * self.flat.shape[-1] + ids
        return xp.take(xp.reshape(self.flat, (-1,)), xp.reshape(places, (-1,))).reshape(ids.shape)


def _group_size(vocab: int) -> int:
    return max(1, _NUMBERS_AT_ONCE // vocab)


def _groups(blocks: Any, vocab: int) -> Iterator[Any]:
    size = _group_size(vocab)
    return (blocks[start : start + size] for start in range(0, len(blocks), size))


def stretch_sums(weights: Any) -> Any:
    """Sums of each stretch of float64 rows, shape ``(n, stretches)``; the last may be shorter."""
    xp = namespace(weights)
    n, vocab = weights.shape
    whole = vocab // _STRETCH * _STRETCH
    parts = xp.reshape(weights[:, :whole], (n, whole // _STRETCH, _STRETCH))
    sums = xp.sum(parts, axis=-1)
    if whole == vocab:
        return sums
    rest = xp.sum(weights[:, whole:], axis=-1, keepdims=True)
    return xp.concat([sums, rest], axis=-1)


def draw_by_stretches(weights: Any, uniforms: Any) -> Any:
    """Draw a token from each of some rows of weights, numpy or torch, on the host.

    Args:
        weights: Nonnegative with a positive sum, shape ``(n, vocab)``.
        uniforms: Numbers in [0, 1), shape ``(n,)``.

    Returns:
        Token ids, int64, shape ``(n,)``; never one of weight zero.
    """
    vocab = weights.shape[-1]
    if vocab < _LONG:
        return categorical_from_uniforms(weights, uniforms)
    xp = namespace(weights)
    wide = xp.astype(weights, xp.float64)

    def stretch(chosen: Any) -> Any:
        ids = chosen[:, None] * _STRETCH + xp.arange(_STRETCH)
        numbers = xp.take_along_axis(wide, xp.clip(ids, max=vocab - 1), axis=-1)
        return xp.where(ids < vocab, numbers, 0)

    return draw_from_stretches(stretch_sums(wide), uniforms, stretch)


def draw_from_stretches(sums: Any, uniforms: Any, stretch: Any) -> Any:
    """Draw a stretch of each row by its sums, then a token within it.

    Args:
        sums: As :func:`stretch_sums` gives them.
        uniforms: Numbers in [0, 1), shape ``(n,)``.
        stretch: Function from the chosen stretches, shape ``(n,)``, to the weights within.

    Returns:
        Token ids, int64, shape ``(n,)``; never one of weight zero.
    """
    xp = namespace(sums)
    chosen = categorical_from_uniforms(sums, uniforms)
    # The same sums once more, so that nothing is left over but what lies within the stretch.
    edges = xp.cumulative_sum(sums, axis=-1)
    rows = xp.arange(sums.shape[0])
    before = xp.where(chosen > 0, edges[rows, xp.clip(chosen - 1, min=0)], 0)
    share = (uniforms * edges[:, -1] - before) / sums[rows, chosen]
    within = categorical_from_uniforms(stretch(chosen), share)
    return chosen * _STRETCH + within


def _is_contiguous(array: Any) -> bool:
    return bool(array.is_contiguous() if is_torch(array) else array.flags.c_contiguous)


def _positive_part(values: Any) -> Any:
    if is_torch(values):
        return values.clamp_(min=0)
    return np.maximum(values, 0, out=values)
