"""A GPT in the Hugging Face GPT-2 layout, with a preallocated KV cache rolled back by length.

Pre-norm blocks, learned positions, ``gelu_new``, tied head, and linear maps stored as
``(inputs, outputs)``: parameter names and shapes are those of ``GPT2LMHeadModel`` without the
``transformer.`` prefix, so weights move both ways unchanged (:mod:`specverify.models.weights`).

References:
    Radford et al. (2019), "Language Models are Unsupervised Multitask Learners".
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from specverify._arrays import Array, to_numpy
from specverify.errors import InvalidInputError
from specverify.models.host_pass import HostPass
from specverify.models.kv_cache import KVCache

__all__ = ["GPTModel"]


class Conv1D(nn.Module):
    """Affine map whose weight has shape ``(inputs, outputs)``, as GPT-2 stores it."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(inputs, outputs))
        self.bias = nn.Parameter(torch.zeros(outputs))

    def apply_to(self, rows: Tensor) -> Tensor:
        """Map rows of shape ``(n, inputs)`` to ``(n, outputs)``."""
        return torch.addmm(self.bias, rows, self.weight)


class Attention(nn.Module):
    """Causal self-attention; reads and extends one layer of a cache when there is one."""

    def __init__(self, embed_dim: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.c_attn = Conv1D(embed_dim, 3 * embed_dim)
        self.c_proj = Conv1D(embed_dim, embed_dim)

    def apply_to(self, rows: Tensor, batch: int, cache: KVCache | None, layer: int) -> Tensor:
        """Attend within each of ``batch`` sequences; rows have shape ``(batch * time, width)``."""
        count, width = rows.shape
        shape = (batch, count // batch, 3, self.num_heads, width // self.num_heads)
        heads = self.c_attn.apply_to(rows).view(shape).permute(2, 0, 3, 1, 4)
        if cache is None:
            query, key, value = heads.unbind(0)
            mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        else:
            key, value, mask = cache.extend(layer, heads[1:])
            mixed = functional.scaled_dot_product_attention(heads[0], key, value, attn_mask=mask)
        return self.c_proj.apply_to(mixed.transpose(1, 2).reshape(count, width))


class FeedForward(nn.Module):
    """Two affine maps around ``gelu_new``, four times as wide inside."""

    def __init__(self, embed_dim: int) -> None:
        super().__init__()
        self.c_fc = Conv1D(embed_dim, 4 * embed_dim)
        self.c_proj = Conv1D(4 * embed_dim, embed_dim)

    def apply_to(self, rows: Tensor) -> Tensor:
        """Map rows of shape ``(n, width)``."""
        inner = functional.gelu(self.c_fc.apply_to(rows), approximate="tanh")
        return self.c_proj.apply_to(inner)


class Block(nn.Module):
    """Attention and feed-forward, each behind a layer norm and beside a residual path."""

    def __init__(self, embed_dim: int, num_heads: int, layer_norm_eps: float) -> None:
        super().__init__()
        self.ln_1 = nn.LayerNorm(embed_dim, eps=layer_norm_eps)
        self.attn = Attention(embed_dim, num_heads)
        self.ln_2 = nn.LayerNorm(embed_dim, eps=layer_norm_eps)
        self.mlp = FeedForward(embed_dim)

    def apply_to(self, rows: Tensor, batch: int, cache: KVCache | None, layer: int) -> Tensor:
        """Apply to the residual stream, shape ``(batch * time, width)``."""
        rows = rows + self.attn.apply_to(_normalise(self.ln_1, rows), batch, cache, layer)
        return rows + self.mlp.apply_to(_normalise(self.ln_2, rows))


def _normalise(norm: nn.LayerNorm, rows: Tensor) -> Tensor:
    return torch.layer_norm(rows, norm.normalized_shape, norm.weight, norm.bias, norm.eps)


class GPTModel(nn.Module):
    """A small GPT-2.

    Args:
        vocab_size: Number of tokens.
        embed_dim: Width of the residual stream; a multiple of ``num_heads``.
        num_heads: Attention heads in a layer.
        num_layers: Number of blocks.
        max_seq_len: Longest sequence, prompt and completion together.
        layer_norm_eps: Added to variances.
        generator: Source of the initial weights; torch's global generator when None.

    Raises:
        InvalidInputError: If a size is below one or the heads do not divide the width.

    Attributes:
        vocab_size: Number of tokens.
        max_length: Longest sequence.
    """

    def __init__(
        self,
        vocab_size: int,
        embed_dim: int,
        num_heads: int,
        num_layers: int,
        max_seq_len: int,
        *,
        layer_norm_eps: float = 1e-5,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        sizes = {
            "vocab_size": vocab_size,
            "embed_dim": embed_dim,
            "num_heads": num_heads,
            "num_layers": num_layers,
            "max_seq_len": max_seq_len,
        }
        for name, size in sizes.items():
            if size < 1:
                raise InvalidInputError(name, f"must be at least 1, got {size}")
        if embed_dim % num_heads:
            raise InvalidInputError("embed_dim", f"{embed_dim} is no multiple of {num_heads} heads")
        self.vocab_size, self.embed_dim, self.num_heads = vocab_size, embed_dim, num_heads
        self.num_layers, self.max_length = num_layers, max_seq_len
        self.layer_norm_eps = layer_norm_eps
        self.wte = nn.Embedding(vocab_size, embed_dim)
        self.wpe = nn.Embedding(max_seq_len, embed_dim)
        self._blocks = [Block(embed_dim, num_heads, layer_norm_eps) for _ in range(num_layers)]
        self.h = nn.ModuleList(self._blocks)
        self.ln_f = nn.LayerNorm(embed_dim, eps=layer_norm_eps)
        self._host: HostPass | None = None
        self._arranged: tuple[tuple[int, int], ...] | None = None
        self._initialise(generator)

    def forward(self, tokens: Array, cache: KVCache | None = None) -> Tensor:
        """Logits of the token after each position.

        Args:
            tokens: Ids, integer, torch or numpy, shape ``(time,)`` or ``(batch, time)``. With a
                cache they continue each row after its cached length.
            cache: Keys and values of what came before; extended in place, without gradients.

        Returns:
            Logits in the weights' dtype, shape ``(time, vocab)`` or ``(batch, time, vocab)``.

        Raises:
            InvalidInputError: If a sequence would be longer than ``max_length``.
        """
        # Small models read a few tokens faster in numpy; elsewhere torch's calls cost little.
        if (
            cache is not None
            and self._host is not None
            and HostPass.takes(math.prod(np.shape(tokens)))
        ):
            return _run_on_host(self._host, tokens, cache)
        ids = torch.as_tensor(tokens, dtype=torch.int64, device=self.wte.weight.device)
        rows = ids if ids.ndim == 2 else ids.unsqueeze(0)
        count = rows.shape[1]
        if cache is None:
            if count > self.max_length:
                raise InvalidInputError(
                    "tokens", f"{count} are more than the model's {self.max_length}"
                )
            logits = self._run(rows, slice(0, count), None)
        else:
            with torch.inference_mode():
                logits = self._run(rows, cache.begin(rows.shape[0], count), cache)
            cache.commit(count)
            logits = logits.clone()  # an ordinary tensor again, which the caller may write to
        return logits if ids.ndim == 2 else logits[0]

    def new_cache(self, batch_size: int = 1) -> KVCache:
        """An empty cache for ``batch_size`` sequences of up to ``max_length`` tokens.

        Short passes of a small model run on a copy of its weights, which is made here, anew when
        they have changed: by an optimiser or in place, but not through ``parameter.data``, which
        torch does not count as a change.
        """
        self._arrange()
        weight = self.wte.weight
        shape = (batch_size, self.num_heads, self.max_length, self.embed_dim // self.num_heads)
        return KVCache(self.num_layers, shape, dtype=weight.dtype, device=weight.device)

    def num_parameters(self) -> int:
        """Number of trained numbers; the tied head counts once."""
        return sum(parameter.numel() for parameter in self.parameters())

    def _run(self, ids: Tensor, positions: Tensor | slice, cache: KVCache | None) -> Tensor:
        # Plain methods on two axes, not nested modules: at this size a module call costs as much
        # as the arithmetic inside.
        batch, time = ids.shape
        embeddings = self.wte.weight
        rows = (functional.embedding(ids, embeddings) + self.wpe.weight[positions]).flatten(0, 1)
        for layer, block in enumerate(self._blocks):
            rows = block.apply_to(rows, batch, cache, layer)
        logits = _normalise(self.ln_f, rows) @ embeddings.t()
        return logits.view(batch, time, -1)

    def _arrange(self) -> None:
        """Make the host's copy of the weights, if there is to be one and it is not there."""
        weights = list(self.parameters())
        stamp = _stamp(weights)
        if stamp is not None and stamp == self._arranged:
            return
        self._arranged, self._host = stamp, None
        if HostPass.suits(weights):
            self._host = HostPass(
                dict(self.named_parameters()),
                num_layers=self.num_layers,
                num_heads=self.num_heads,
                layer_norm_eps=self.layer_norm_eps,
            )

    def _initialise(self, generator: torch.Generator | None) -> None:
        # GPT-2's rule: maps that end on the residual stream start smaller, by its depth.
        shrink = 1 / math.sqrt(2 * self.num_layers)
        with torch.no_grad():
            for name, parameter in self.named_parameters():
                if parameter.ndim == 2:
                    scale = 0.01 if name == "wpe.weight" else 0.02
                    scale *= shrink if name.endswith("c_proj.weight") else 1
                    parameter.normal_(0.0, scale, generator=generator)


def _run_on_host(host: HostPass, tokens: Array, cache: KVCache) -> Tensor:
    ids = to_numpy(tokens)
    rows = ids if ids.ndim == 2 else ids[None]
    logits = torch.from_numpy(host.run(rows, *cache.begin_on_host(*rows.shape)))
    cache.commit(rows.shape[1])
    return logits if ids.ndim == 2 else logits[0]


def _stamp(weights: Iterable[Tensor]) -> tuple[tuple[int, int], ...] | None:
    """Changes with every counted change of the weights; None where torch does not count."""
    found = list(weights)
    if any(weight.is_inference() for weight in found):
        return None
    return tuple((weight.data_ptr(), weight._version) for weight in found)
