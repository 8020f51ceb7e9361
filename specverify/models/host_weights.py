"""A GPT's weights with everything that is fixed folded into them, for passes in numpy.

The residual stream is kept centred: means are taken out of the embeddings and of all maps that end
on it, so that a layer norm is a division by the root of the sum of squares. Its scale, its offset
and the factors of attention and ``gelu_new`` are part of the maps after it.

References:
    Ashkboos et al. (2024), "SliceGPT", arXiv:2401.15024, section 3.1: layer norms without means.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from specverify.models.panels import PanelMap

__all__ = ["GELU_SLOPE", "FoldedWeights", "Lookup"]

Rows = NDArray[Any]

# gelu_new(x) is z / (2 a) (1 + tanh(z^3 + b z)) in z = a x.
_GELU_SCALE = math.sqrt(2 / math.pi)
_GELU_UNIT = math.cbrt(0.044715 * _GELU_SCALE)
GELU_SLOPE = _GELU_SCALE / _GELU_UNIT
"""The ``b`` in ``z / (2 a) (1 + tanh(z^3 + b z))``, where the maps around it put ``a``."""

# Larger tables than this would be read from the memory anyway.
_MOST_IN_TABLES = 2**20


class Lookup(NamedTuple):
    """The first layer's queries, keys and values, before the norm divides them and without bias.

    Attributes:
        tokens: Share of each token, shape ``(vocab, 3 * width)``.
        positions: Share of each position, shape ``(max_length, 3 * width)``.
        bias: Added in the end, shape ``(1, 3 * width)``.
    """

    tokens: Rows
    positions: Rows
    bias: Rows


@dataclass(frozen=True)
class FoldedWeights:
    """Parameters by name, and maps made from them; all is folded in float64.

    Attributes:
        arrays: As :class:`~specverify.models.gpt.GPTModel` names them.
        num_heads: Attention heads in a layer.
    """

    arrays: Mapping[str, Rows]
    num_heads: int

    @property
    def token_embeddings(self) -> Rows:
        """Shape ``(vocab, width)``."""
        return self._rounded(_centred(self.arrays["wte.weight"]))

    @property
    def position_embeddings(self) -> Rows:
        """Shape ``(max_length, width)``."""
        return self._rounded(_centred(self.arrays["wpe.weight"]))

    def lookup(self) -> Lookup | None:
        """What the first layer's attention makes of embeddings, where that is a small table."""
        tokens, positions = (self.arrays[f"{name}.weight"] for name in ("wte", "wpe"))
        weight, bias = self._attention_in(0)
        if (len(tokens) + len(positions)) * len(bias) > _MOST_IN_TABLES:
            return None
        return Lookup(
            self._rounded(_centred(tokens) @ weight),
            self._rounded(_centred(positions) @ weight),
            self._rounded(bias[None]),
        )

    def attention_in(self, layer: int) -> PanelMap:
        """Queries, keys and values, with the scale of the scores in the queries' part."""
        return self._map(*self._attention_in(layer))

    def attention_out(self, layer: int) -> PanelMap:
        """Attention's share of the residual stream."""
        return self._onto_stream(f"h.{layer}.attn.c_proj")

    def feed_forward_in(self, layer: int) -> PanelMap:
        """What ``gelu_new`` is taken of, in its own unit."""
        weight, bias = self._affine(f"h.{layer}.mlp.c_fc")
        return self._map(
            *self._after_norm(f"h.{layer}.ln_2", _GELU_UNIT * weight, _GELU_UNIT * bias)
        )

    def feed_forward_out(self, layer: int) -> PanelMap:
        """The share of the residual stream of ``z (1 + tanh(...))``."""
        return self._onto_stream(f"h.{layer}.mlp.c_proj", 0.5 / _GELU_UNIT)

    def head(self) -> PanelMap:
        """Logits."""
        return self._map(*self._after_norm("ln_f", self.arrays["wte.weight"].T))

    def _attention_in(self, layer: int) -> tuple[Rows, Rows]:
        weight, bias = self._affine(f"h.{layer}.attn.c_attn")
        width = len(weight)
        scale = np.ones(3 * width)
        scale[:width] = (width // self.num_heads) ** -0.5
        return self._after_norm(f"h.{layer}.ln_1", weight * scale, bias * scale)

    def _after_norm(self, name: str, weight: Rows, bias: Rows | float = 0.0) -> tuple[Rows, Rows]:
        """A map of a layer norm's outputs, as one of rows over the root of their squares' sum."""
        scale, offset = self._affine(name)
        return math.sqrt(len(scale)) * scale[:, None] * weight, offset @ weight + bias

    def _onto_stream(self, name: str, factor: float = 1.0) -> PanelMap:
        weight, bias = self._affine(name)
        return self._map(factor * _centred(weight), _centred(bias))

    def _affine(self, name: str) -> tuple[Rows, Rows]:
        weight, bias = (self.arrays[f"{name}.{part}"] for part in ("weight", "bias"))
        return weight.astype(np.float64), bias.astype(np.float64)

    def _map(self, weight: Rows, bias: Rows) -> PanelMap:
        return PanelMap(self._rounded(weight), self._rounded(bias))

    def _rounded(self, rows: Rows) -> Rows:
        return rows.astype(self.arrays["wte.weight"].dtype)


def _centred(rows: Rows) -> Rows:
    """Rows without their means, float64."""
    wide = rows.astype(np.float64)
    centred: Rows = wide - wide.mean(axis=-1, keepdims=True)
    return centred
