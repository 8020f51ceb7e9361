"""Passes of a few tokens through a small GPT in numpy, on rearranged weights and torch's cache.

One token through a layer of a small model is some thirty operations of a few microseconds each,
and a torch call alone costs as much. numpy's calls are cheaper. What is fixed is folded into the
weights beforehand; the numbers agree up to rounding.

References:
    Ashkboos et al. (2024), "SliceGPT", arXiv:2401.15024, section 3.1: layer norms without means.
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
from specverify.models.panels import PanelMap, side_by_side

__all__ = ["HostPass"]

# A second copy of the weights pays where they stay in the processor's caches; the memory's own
# pace decides about larger models.
_MOST_WEIGHTS = 2**25
# With more rows than this torch's products are as fast, and may run on several threads.
_MOST_ROWS = 64
# gelu_new(x) is z / (2 a) (1 + tanh(z^3 + b z)) in z = a x.
_GELU_SCALE = math.sqrt(2 / math.pi)
_GELU_UNIT = math.cbrt(0.044715 * _GELU_SCALE)
_GELU_SLOPE = _GELU_SCALE / _GELU_UNIT

Rows = NDArray[Any]


class HostPass:
    """A model's weights, copied and arranged for numpy.

    The residual stream is kept centred: means are taken out of the embeddings and of all maps that
    end on it, so that a layer norm is a division by the root of the mean square. Its scale, its
    offset and the factors of attention and ``gelu_new`` are part of the maps after it.

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
        source = _Source({name: value.detach().numpy() for name, value in weights.items()})
        self._tokens = _centred(source.arrays["wte.weight"])
        self._positions = _centred(source.arrays["wpe.weight"])
        self._layers = [_Layer.of(source, f"h.{i}", num_heads) for i in range(num_layers)]
        self._head = source.after_norm("ln_f", source.arrays["wte.weight"].T)
        side_by_side([*(each for layer in self._layers for each in layer.maps), self._head])
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
        rows = self._tokens[tokens] + place.rows_of(self._positions)
        for layer, heads in zip(self._layers, stored, strict=True):
            rows += layer.attend(_normalise(rows, self._eps), heads, place)
            rows += layer.feed_forward(_normalise(rows, self._eps))
        return self._head(_normalise(rows, self._eps)).reshape(len(starts), count, -1)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a pass stands.

    Attributes:
        slots: First and one past the last position of each row's tokens.
        stop: One past the last position of the longest row.
        bias: Added to scores: ``-inf`` at keys that a query must not see, else 0; shape
            ``(batch, 1, time, stop)``; None where every query sees every key.
    """

    slots: Sequence[tuple[int, int]]
    stop: int
    bias: Rows | None

    @classmethod
    def of(cls, starts: Sequence[int], count: int) -> _Place:
        stop = max(starts) + count
        if count == 1 and min(starts) + 1 == stop:
            return cls([(start, stop) for start in starts], stop, None)
        queries = np.asarray(starts)[:, None, None, None] + np.arange(count)[:, None]
        # A query sees keys up to its own position: this hides a shorter row's leftovers, too.
        bias = np.where(np.arange(stop) > queries, np.float32(-np.inf), np.float32(0))
        return cls([(start, start + count) for start in starts], stop, bias)

    def rows_of(self, positions: Rows) -> Rows:
        """Embeddings of the positions, one after the other."""
        if len(self.slots) == 1:
            ((start, stop),) = self.slots
            return positions[start:stop]
        return np.concatenate([positions[start:stop] for start, stop in self.slots])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layer:
    """One block."""

    num_heads: int
    attention_in: PanelMap
    attention_out: PanelMap
    feed_forward_in: PanelMap
    feed_forward_out: PanelMap

    @classmethod
    def of(cls, source: _Source, prefix: str, num_heads: int) -> _Layer:
        return cls(
            num_heads=num_heads,
            attention_in=source.queries_keys_values(prefix, num_heads),
            attention_out=source.onto_stream(f"{prefix}.attn.c_proj", 1),
            feed_forward_in=source.after_norm(
                f"{prefix}.ln_2",
                *(_GELU_UNIT * part for part in source.affine(f"{prefix}.mlp.c_fc")),
            ),
            feed_forward_out=source.onto_stream(f"{prefix}.mlp.c_proj", 0.5 / _GELU_UNIT),
        )

    @property
    def maps(self) -> tuple[PanelMap, ...]:
        """In the order in which a pass reads them."""
        return (
            self.attention_in,
            self.attention_out,
            self.feed_forward_in,
            self.feed_forward_out,
        )

    def attend(self, rows: Rows, stored: Rows, place: _Place) -> Rows:
        """Attention's share of the residual stream; stores keys and values."""
        batch, heads = len(place.slots), self.num_heads
        fresh = self.attention_in(rows).reshape(batch, len(rows) // batch, 3, heads, -1)
        fresh = fresh.transpose(2, 0, 3, 1, 4)
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
        return self.attention_out(mixed.swapaxes(1, 2).reshape(len(rows), -1))

    def feed_forward(self, rows: Rows) -> Rows:
        """The two affine maps around ``gelu_new``, which is computed in place."""
        inner = self.feed_forward_in(rows)
        gate = inner * inner
        gate += _GELU_SLOPE
        gate *= inner
        np.tanh(gate, out=gate)
        gate += 1
        gate *= inner
        return self.feed_forward_out(gate)


@dataclass(frozen=True)
class _Source:
    """Parameters by name, and maps made from them; all is folded in float64."""

    arrays: Mapping[str, Rows]

    def affine(self, name: str) -> tuple[Rows, Rows]:
        weight, bias = (self.arrays[f"{name}.{part}"] for part in ("weight", "bias"))
        return weight.astype(np.float64), bias.astype(np.float64)

    def queries_keys_values(self, prefix: str, num_heads: int) -> PanelMap:
        """Attention's map, with the scale of the scores in the queries' part."""
        weight, bias = self.affine(f"{prefix}.attn.c_attn")
        width = len(weight)
        scale = np.ones(3 * width)
        scale[:width] = (width // num_heads) ** -0.5
        return self.after_norm(f"{prefix}.ln_1", weight * scale, bias * scale)

    def after_norm(self, name: str, weight: Rows, bias: Rows | float = 0.0) -> PanelMap:
        """A map of what a layer norm gives, as a map of what :func:`_normalise` gives."""
        scale, offset = self.affine(name)
        width, dtype = len(scale), self.arrays[f"{name}.weight"].dtype
        folded = math.sqrt(width) * scale[:, None] * weight
        return PanelMap(folded.astype(dtype), (offset @ weight + bias).astype(dtype))

    def onto_stream(self, name: str, factor: float) -> PanelMap:
        """A map whose outputs have no mean."""
        weight, bias = (self.arrays[f"{name}.{part}"] for part in ("weight", "bias"))
        return PanelMap(_centred(weight, factor), _centred(bias))


def _centred(rows: Rows, factor: float = 1.0) -> Rows:
    wide = rows.astype(np.float64)
    centred: Rows = (factor * (wide - wide.mean(axis=-1, keepdims=True))).astype(rows.dtype)
    return centred


def _normalise(rows: Rows, eps: float) -> Rows:
    """Rows without a mean over the root of their sum of squares."""
    if len(rows) == 1:  # a number costs less than an array of one
        row = rows[0]
        return rows * (1 / math.sqrt(row.dot(row) + eps))
    squares = np.add.reduce(rows * rows, axis=-1, keepdims=True)
    squares += eps
    return rows / np.sqrt(squares, out=squares)
