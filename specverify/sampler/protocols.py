"""What a decode loop asks of a model: a step function, or a model with a key-value cache."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from specverify._arrays import Array

__all__ = ["BatchedKVCache", "CachedModel", "KVCache", "StepFunction"]

StepFunction: TypeAlias = Callable[[Any], Any]
"""Maps the tokens so far, integer ids of shape ``(t,)``, to the next token's law ``(vocab,)``."""


@runtime_checkable
class KVCache(Protocol):
    """Keys and values of the tokens already seen, one row a sequence.

    Attributes:
        lengths: Tokens held in each row, int64, shape ``(batch,)``. The loops roll a cache back by
            writing a smaller number here (``cache.lengths[:] = kept``, in place): whatever lies
            beyond is forgotten, and is overwritten by the next call. Rows may differ, since they
            accept unequal numbers of drafts.
    """

    lengths: NDArray[np.int64]


@runtime_checkable
class BatchedKVCache(KVCache, Protocol):
    """A cache that sequences may leave before the others have ended."""

    def keep(self, rows: Sequence[int]) -> None:
        """Drop all other rows, and put these in this order.

        Args:
            rows: Indices of different rows, at least one.
        """


@runtime_checkable
class CachedModel(Protocol):
    """A causal language model that evaluates new tokens after a cached prefix.

    Attributes:
        vocab_size: Number of tokens.
        max_length: Longest sequence, in tokens, that a cache row can hold.
    """

    @property
    def vocab_size(self) -> int:
        """Number of tokens."""

    @property
    def max_length(self) -> int:
        """Longest sequence, in tokens, that a cache row can hold."""

    def new_cache(self, batch_size: int = 1) -> Any:
        """An empty cache (a :class:`KVCache` of the model's own kind): all lengths 0."""

    def forward(self, tokens: NDArray[np.int64], cache: Any) -> Array:
        """Append tokens to the cache and score what follows each.

        Args:
            tokens: Ids, int64, shape ``(batch, t)`` with ``t >= 1``. Token ``[b, j]`` stands at
                position ``cache.lengths[b] + j`` of row ``b`` and sees that row's cached prefix,
                the tokens before it in the call, and itself. The caller sees to it that
                ``cache.lengths + t <= max_length``.
            cache: A cache from ``new_cache``; its ``lengths`` grow by ``t`` in every row. Tokens
                that only fill up a shorter row stand at its end and are rolled back by the caller.

        Returns:
            Logits, floating, numpy or torch, shape ``(batch, t, vocab_size)``: row ``[b, j]``
            scores the token after ``tokens[b, j]``.
        """
