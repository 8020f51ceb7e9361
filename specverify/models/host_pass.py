"""Passes of a few tokens through a small GPT in numpy, on rearranged weights and torch's cache.

One token through a layer of a small model is some thirty operations of a few microseconds each,
and a torch call alone costs as much. numpy's calls are cheaper. What is fixed is folded into the
weights beforehand (:mod:`specverify.models.host_weights`); the numbers agree up to rounding.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from specverify.errors import InvalidInputError
from specverify.models.host_weights import GELU_SLOPE, FoldedWeights
from specverify.models.panels import PanelMap, side_by_side

__all__ = ["HostPass"]

# A second copy of the weights pays where they stay in the processor's caches; the memory's own
# pace decides about larger models.
_MOST_WEIGHTS = 2**25
# With more rows than this torch's products are as fast, and may run on several threads.
_MOST_ROWS = 64
# Added to the scores of queries in a row for keys at the same places: none sees a later one.
_LATER = np.triu(np.full((_MOST_ROWS, _MOST_ROWS), -np.inf, np.float32), 1)

Rows = NDArray[Any]


class HostPass:
    """A model's weights, copied and arranged for numpy.

    Args:
        weights: Parameters by name, as :class:`~specverify.models.gpt.GPTModel` names them; later
            changes are not seen.
        num_layers: Number of blocks.
        num_heads: Attention heads in a layer.
        layer_norm_eps: Added to variances.
    """

    def __init__(
        self,
        weights: Mapping[str, Tensor],
        *,
        num_layers: int,
        num_heads: int,
        layer_norm_eps: float,
    ) -> None:
        arrays = {name: value.detach().numpy() for name, value in weights.items()}
        folded = FoldedWeights(arrays, num_heads)
        self._tokens, self._positions = folded.token_embeddings, folded.position_embeddings
        self._lookup = folded.lookup()
        # Where the stream is read: by each layer's attention, and in the end by the head.
        readers = [folded.attention_in(i) for i in range(num_layers)] + [folded.head()]
        self._first, self._exits = readers[0], readers[1:]
        self._layers = [_Layer.of(folded, i) for i in range(num_layers)]
        used = [self._first] if self._lookup is None else []
        for layer, leave in zip(self._layers, self._exits, strict=True):
            used += [*layer.maps, leave]
        side_by_side(used)
        self._eps = layer_norm_eps * self._tokens.shape[1]

    @staticmethod
    def suits(weights: Sequence[Tensor]) -> bool:
        """Whether a model with these parameters is one for numpy."""
        return (
            all(each.device.type == "cpu" for each in weights)
            and len({each.dtype for each in weights}) == 1
            and weights[0].element_size() >= 4
            and sum(each.numel() for each in weights) <= _MOST_WEIGHTS
        )

    @staticmethod
    def takes(rows: int) -> bool:
        """Whether a pass of so many tokens in all is short enough to gain."""
        return rows <= _MOST_ROWS

    def run(self, ids: NDArray[np.int64], starts: Sequence[int], stored: Rows) -> Rows:
        """Logits of what follows each token, shape ``(batch, time, vocab)``; extends the cache.

        Args:
            ids: Tokens, shape ``(batch, time)``.
            starts: Tokens already cached in each row.
            stored: Keys and values of each layer, shape ``(layers, 2, batch, heads, max_length,
                head_dim)``.

        Raises:
            InvalidInputError: If an id is negative, which numpy would count from the end.
        """
        tokens = ids.ravel()
        if min(tokens.tolist()) < 0:
            raise InvalidInputError("tokens", f"ids must not be negative, got {ids.tolist()}")
        count = ids.shape[1]
        place = _Place.of(starts, count)
        rows = self._tokens.take(tokens, 0)
        rows += place.rows_of(self._positions)
        read = self._enter(rows, tokens, place)
        for layer, leave, heads in zip(self._layers, self._exits, stored, strict=True):
            rows += layer.attend(read, heads, place)
            rows += layer.feed_forward(rows / _norms(rows, self._eps))
            read = leave(rows / _norms(rows, self._eps))
        return read.reshape(len(starts), count, -1)

    def _enter(self, rows: Rows, tokens: NDArray[np.int64], place: _Place) -> Rows:
        """The first layer's queries, keys and values."""
        norms = _norms(rows, self._eps)
        if self._lookup is None:
            return self._first(rows / norms)
        read = self._lookup.tokens.take(tokens, 0)
        read += place.rows_of(self._lookup.positions)
        read /= norms
        read += self._lookup.bias
        return read


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a pass stands.

    Attributes:
        slots: First and one past the last position of each row's tokens.
        stop: One past the last position of the longest row.
        bias: Added to scores: ``-inf`` at keys that a query must not see, else 0; shape
            ``(batch, 1, time, stop)``, or ``(time, stop)`` where rows are equally long; None where
            every query sees every key.
    """

    slots: Sequence[tuple[int, int]]
    stop: int
    bias: Rows | None

    @classmethod
    def of(cls, starts: Sequence[int], count: int) -> _Place:
        longest = max(starts)
        slots, stop = [(start, start + count) for start in starts], longest + count
        if count > _MOST_ROWS or min(starts) < longest:
            return cls(slots, stop, _unequal(starts, count))
        if count == 1:
            return cls(slots, stop, None)
        bias = np.zeros((count, stop), np.float32)
        bias[:, longest:] = _LATER[:count, :count]
        return cls(slots, stop, bias)

    def rows_of(self, positions: Rows) -> Rows:
        """Embeddings of the positions, one after the other."""
        if len(self.slots) == 1:
            ((start, stop),) = self.slots
            return positions[start:stop]
        return np.concatenate([positions[start:stop] for start, stop in self.slots])


def _unequal(starts: Sequence[int], count: int) -> Rows:
    """The bias of rows of any lengths."""
    queries = np.asarray(starts)[:, None, None, None] + np.arange(count)[:, None]
    # A query sees keys up to its own position: this hides a shorter row's leftovers, too.
    later = np.arange(max(starts) + count) > queries
    return np.where(later, np.float32(-np.inf), np.float32(0))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layer:
    """One block, but for the map into its attention."""

    num_heads: int
    attention_out: PanelMap
    feed_forward_in: PanelMap
    feed_forward_out: PanelMap

    @classmethod
    def of(cls, folded: FoldedWeights, layer: int) -> _Layer:
        return cls(
            num_heads=folded.num_heads,
            attention_out=folded.attention_out(layer),
            feed_forward_in=folded.feed_forward_in(layer),
            feed_forward_out=folded.feed_forward_out(layer),
        )

    @property
    def maps(self) -> tuple[PanelMap, ...]:
        """In the order in which a pass reads them."""
        return self.attention_out, self.feed_forward_in, self.feed_forward_out

    def attend(self, read: Rows, stored: Rows, place: _Place) -> Rows:
        """Attention's share of the residual stream; stores keys and values."""
        batch, heads = len(place.slots), self.num_heads
        fresh = read.reshape(batch, len(read) // batch, 3, heads, -1).transpose(2, 0, 3, 1, 4)
        for row, (start, stop) in enumerate(place.slots):
            stored[:, row, :, start:stop] = fresh[1:, row]
        seen = stored[:, :, :, : place.stop]
        scores = fresh[0] @ seen[0].swapaxes(2, 3)
        if place.bias is not None:
            scores += place.bias
        scores -= np.maximum.reduce(scores, axis=-1, keepdims=True)
        np.exp(scores, out=scores)
        mixed = scores @ seen[1]
        mixed /= np.add.reduce(scores, axis=-1, keepdims=True)
        return self.attention_out(mixed.swapaxes(1, 2).reshape(len(read), -1))

    def feed_forward(self, rows: Rows) -> Rows:
        """The two affine maps around ``gelu_new``, which is computed in place."""
        inner = self.feed_forward_in(rows)
        gate = inner * inner
        gate += GELU_SLOPE
        gate *= inner
        np.tanh(gate, out=gate)
        gate += 1
        gate *= inner
        return self.feed_forward_out(gate)


def _norms(rows: Rows, eps: float) -> Rows | float:
    """Root of each row's sum of squares and ``eps``, shape ``(n, 1)``; a number for one row."""
    if len(rows) == 1:  # a number costs less than an array of one
        row = rows[0]
        return math.sqrt(row.dot(row) + eps)
    squares = np.add.reduce(rows * rows, axis=-1, keepdims=True, initial=eps)
    norms: Rows = np.sqrt(squares, out=squares)
    return norms
