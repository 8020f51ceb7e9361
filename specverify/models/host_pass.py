"""Passes of a few tokens through a small GPT in numpy, on the weights and the cache of torch.

One token through a layer of a small model is some thirty operations of a few microseconds each,
and a torch call alone costs as much. numpy's calls are cheaper; the numbers agree up to rounding.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from specverify.errors import InvalidInputError

__all__ = ["HostPass"]

_MOST_TOKENS = 8
# Multiplications a token in the largest product. It takes in the shipped draft and leaves its
# target to torch, where models that are worth a draft run; the model card says what that decides.
_SMALL_MODEL = 2**17
# A product of at most so many multiplications runs on one thread in OpenBLAS, numpy's usual BLAS.
# Larger ones go to torch, whose number of threads the caller sets.
_SMALL_PRODUCT = 2**18
_GELU_SCALE = math.sqrt(2 / math.pi)

Rows = NDArray[Any]


class HostPass:
    """A model's weights and one sequence's cache, seen by numpy without copies.

    Args:
        weights: Parameters by name, as :class:`~specverify.models.gpt.GPTModel` names them.
        stored: Keys and values of each layer, shape ``(2, 1, heads, max_length, head_dim)``.
        layer_norm_eps: Added to variances.
    """

    def __init__(
        self, weights: Mapping[str, Tensor], stored: Sequence[Tensor], *, layer_norm_eps: float
    ) -> None:
        self._tokens = weights["wte.weight"].numpy()
        self._positions = weights["wpe.weight"].numpy()
        self._layers = [_Layer.view(weights, i, heads[:, 0]) for i, heads in enumerate(stored)]
        self._final = _norm_view(weights, "ln_f")
        self._head = _Affine(weights["wte.weight"].t(), None)
        self._eps = layer_norm_eps

    @staticmethod
    def suits(weights: Tensor, batch_size: int) -> bool:
        """Whether a model with such token embeddings, shape ``(vocab, width)``, is small enough.

        Args:
            weights: Token embeddings.
            batch_size: Sequences in the cache.
        """
        vocab_size, width = weights.shape
        on_host = weights.device.type == "cpu" and weights.dtype in (torch.float32, torch.float64)
        return batch_size == 1 and on_host and width * max(4 * width, vocab_size) <= _SMALL_MODEL

    @staticmethod
    def takes(count: int) -> bool:
        """Whether a pass of so many tokens is short enough to gain."""
        return count <= _MOST_TOKENS

    def run(self, ids: NDArray[np.int64], start: int) -> Rows:
        """Logits ``(time, vocab)`` of tokens at positions from ``start`` on; extends the cache.

        Args:
            ids: Tokens, shape ``(time,)``.
            start: Tokens already cached.

        Raises:
            InvalidInputError: If an id is negative, which numpy would count from the end.
        """
        if min(ids.tolist()) < 0:
            raise InvalidInputError("tokens", f"ids must not be negative, got {ids.tolist()}")
        stop = start + len(ids)
        rows = self._tokens[ids] + self._positions[start:stop]
        hidden = None
        if len(ids) > 1:
            hidden = np.arange(stop) > np.arange(start, stop)[:, None]
        for layer in self._layers:
            rows += layer.attend(_normalise(rows, layer.before_attention, self._eps), start, hidden)
            rows += layer.feed_forward(_normalise(rows, layer.before_feed_forward, self._eps))
        return self._head(_normalise(rows, self._final, self._eps))


class _Affine:
    """An affine map; ``weight`` has shape ``(inputs, outputs)``."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self.weight, self.array = weight, weight.numpy()
        self.bias = None if bias is None else bias.numpy()

    def __call__(self, rows: Rows) -> Rows:
        if len(rows) * self.array.size <= _SMALL_PRODUCT:
            mapped: Rows = rows @ self.array
        else:
            mapped = torch.mm(torch.from_numpy(rows), self.weight).numpy()
        if self.bias is not None:
            mapped += self.bias
        return mapped


@dataclass(frozen=True, kw_only=True)
class _Layer:
    """One block; ``stored`` are its keys and values, shape ``(2, heads, max_length, head_dim)``."""

    before_attention: tuple[Rows, Rows]
    attention_in: _Affine
    attention_out: _Affine
    before_feed_forward: tuple[Rows, Rows]
    feed_forward_in: _Affine
    feed_forward_out: _Affine
    stored: Rows

    @classmethod
    def view(cls, weights: Mapping[str, Tensor], index: int, stored: Tensor) -> _Layer:
        """The parameters of layer ``index``."""

        def affine(name: str) -> _Affine:
            prefix = f"h.{index}.{name}"
            return _Affine(weights[f"{prefix}.weight"], weights[f"{prefix}.bias"])

        return cls(
            before_attention=_norm_view(weights, f"h.{index}.ln_1"),
            attention_in=affine("attn.c_attn"),
            attention_out=affine("attn.c_proj"),
            before_feed_forward=_norm_view(weights, f"h.{index}.ln_2"),
            feed_forward_in=affine("mlp.c_fc"),
            feed_forward_out=affine("mlp.c_proj"),
            stored=stored.numpy(),
        )

    def attend(self, rows: Rows, start: int, hidden: NDArray[np.bool_] | None) -> Rows:
        """Attention's share of the residual stream; ``hidden`` marks keys after each query."""
        _, heads, _, head_dim = self.stored.shape
        count, stop = len(rows), start + len(rows)
        fresh = self.attention_in(rows).reshape(count, 3, heads, head_dim).transpose(1, 2, 0, 3)
        self.stored[:, :, start:stop] = fresh[1:]
        keys, values = self.stored[:, :, :stop]
        scores = (fresh[0] * head_dim**-0.5) @ keys.transpose(0, 2, 1)
        if hidden is not None:
            scores[:, hidden] = -np.inf
        scores -= np.maximum.reduce(scores, axis=-1, keepdims=True)
        np.exp(scores, out=scores)
        scores /= np.add.reduce(scores, axis=-1, keepdims=True)
        return self.attention_out((scores @ values).transpose(1, 0, 2).reshape(count, -1))

    def feed_forward(self, rows: Rows) -> Rows:
        """The two affine maps around ``gelu_new``, computed in place."""
        inner = self.feed_forward_in(rows)
        gate = inner * inner
        gate *= inner
        gate *= 0.044715
        gate += inner
        gate *= _GELU_SCALE
        np.tanh(gate, out=gate)
        gate += 1
        gate *= inner
        gate *= 0.5
        return self.feed_forward_out(gate)


def _norm_view(weights: Mapping[str, Tensor], name: str) -> tuple[Rows, Rows]:
    return weights[f"{name}.weight"].numpy(), weights[f"{name}.bias"].numpy()


def _normalise(rows: Rows, norm: tuple[Rows, Rows], eps: float) -> Rows:
    width = rows.shape[-1]
    centred: Rows = rows - np.add.reduce(rows, axis=-1, keepdims=True) / width
    variance = np.add.reduce(centred * centred, axis=-1, keepdims=True) / width
    variance += eps
    centred /= np.sqrt(variance)
    centred *= norm[0]
    centred += norm[1]
    return centred
