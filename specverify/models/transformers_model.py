"""Any causal language model of transformers as a cached model that decode loops can drive."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from specverify._arrays import Array
from specverify.errors import InvalidInputError, MissingDependencyError

__all__ = ["TransformersCache", "TransformersModel"]


class TransformersCache:
    """A dynamic cache of transformers whose rows may be rolled back by unequal numbers.

    transformers can only cut columns that no row needs. Where rows differ, the columns between a
    row's length and its next token stay and are masked out for that row.

    Attributes:
        lengths: Tokens that count in each row, int64, shape ``(batch,)``; written in place.
    """

    def __init__(self, batch_size: int) -> None:
        from transformers import DynamicCache

        self.lengths: NDArray[np.int64] = np.zeros(batch_size, np.int64)
        self.past = DynamicCache()
        self.visible = np.zeros((batch_size, 0), np.bool_)

    def roll_back(self) -> None:
        """Hide, and cut where no row needs it, what ``lengths`` no longer counts.

        Raises:
            InvalidInputError: If a length is negative or more than what was stored.
        """
        counted = self.visible.cumsum(axis=1)
        stored = counted[:, -1] if counted.shape[1] else np.zeros_like(self.lengths)
        if (self.lengths < 0).any() or (self.lengths > stored).any():
            raise InvalidInputError(
                "cache", f"lengths {self.lengths.tolist()} of the stored {stored.tolist()}"
            )
        self.visible &= counted <= self.lengths[:, None]
        needed = int(np.flatnonzero(self.visible.any(axis=0)).max(initial=-1)) + 1
        surplus = self.visible.shape[1] - needed
        if surplus:
            self.past.crop(-surplus)
            self.visible = self.visible[:, :needed]

    def keep(self, rows: Sequence[int]) -> None:
        """Drop all other rows, and put these in this order.

        Args:
            rows: Indices of different rows, at least one.
        """
        self.past.batch_select_indices(torch.as_tensor(rows))
        self.lengths, self.visible = self.lengths[rows], self.visible[rows]


class TransformersModel:
    """A causal language model of transformers behind the cached-model interface.

    Args:
        model: E.g. a ``GPT2LMHeadModel``; put into evaluation mode.

    Raises:
        InvalidInputError: If it does not say its vocabulary or longest sequence.
        MissingDependencyError: If transformers is not installed.

    Attributes:
        model: The wrapped model.
        vocab_size: Number of tokens, as its configuration says.
        max_length: Longest sequence.
    """

    def __init__(self, model: Any) -> None:
        _require_transformers()
        config = model.config.get_text_config()
        self.model = model.eval()
        self.vocab_size = _size(config, "vocab_size")
        self.max_length = _size(config, "max_position_embeddings", "n_positions", "n_ctx")
        names = inspect.signature(model.forward).parameters
        self._cache_name = "cache" if "cache" in names else "past_key_values"
        self._takes_positions = "position_ids" in names

    def __call__(self, tokens: Array) -> Tensor:
        """Logits of whole sequences, shape ``(batch, time, vocab)``, without a cache."""
        with torch.no_grad():
            logits: Tensor = self.model(input_ids=self._ids(tokens), use_cache=False).logits
        return logits

    def new_cache(self, batch_size: int = 1) -> TransformersCache:
        """An empty cache."""
        return TransformersCache(batch_size)

    def forward(self, tokens: Array, cache: TransformersCache) -> Tensor:
        """Append tokens to the cache and score what follows each.

        Args:
            tokens: Ids, shape ``(batch, time)``; they continue each row after its counted length.
            cache: A cache from :meth:`new_cache`; its lengths grow by ``time``.

        Returns:
            Logits, shape ``(batch, time, vocab)``.

        Raises:
            InvalidInputError: If the batch differs from the cache's, a length is impossible, or a
                row would overflow.
        """
        ids = self._ids(tokens)
        rows, count = ids.shape
        if rows != len(cache.lengths):
            raise InvalidInputError("tokens", f"{rows} rows for {len(cache.lengths)} cached")
        longest = int(cache.lengths.max())
        if longest + count > self.max_length:
            raise InvalidInputError(
                "tokens", f"{count} after {longest} are more than the model's {self.max_length}"
            )
        cache.roll_back()
        visible = np.concatenate([cache.visible, np.ones((rows, count), np.bool_)], axis=1)
        arguments = {self._cache_name: cache.past, **self._placement(cache, visible, count)}
        with torch.no_grad():
            logits: Tensor = self.model(input_ids=ids, use_cache=True, **arguments).logits
        cache.visible = visible
        cache.lengths += count
        return logits

    def _placement(
        self, cache: TransformersCache, visible: NDArray[np.bool_], count: int
    ) -> dict[str, Tensor]:
        """Positions and mask, where a row's tokens do not simply follow the cache's columns."""
        if visible.all():
            return {}
        if not self._takes_positions:
            raise InvalidInputError("tokens", "this model cannot hold rows of unequal length")
        positions = cache.lengths[:, None] + np.arange(count)
        device = self.model.device
        return {
            "attention_mask": torch.from_numpy(visible).long().to(device),
            "position_ids": torch.from_numpy(positions).to(device),
        }

    def _ids(self, tokens: Array) -> Tensor:
        return torch.as_tensor(tokens, dtype=torch.int64, device=self.model.device)


def _size(config: Any, *names: str) -> int:
    for name in names:
        size = getattr(config, name, None)
        if isinstance(size, int):
            return size
    raise InvalidInputError("model", f"its configuration gives none of {', '.join(names)}")


def _require_transformers() -> None:
    try:
        import transformers  # noqa: F401
    except ImportError as error:
        raise MissingDependencyError("transformers", "hf") from error
