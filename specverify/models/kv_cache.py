"""Preallocated keys and values of a transformer, rolled back by length.

A rejected draft leaves its keys behind; nothing is copied or cut, the row's length alone says how
much of it counts, and the next tokens overwrite the rest.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from specverify.errors import InvalidInputError

__all__ = ["KVCache"]


class KVCache:
    """Keys and values of every layer for a batch of sequences of unequal lengths.

    Args:
        num_layers: Layers of the model.
        shape: ``(batch, heads, max_length, head_dim)`` of one layer's keys.
        dtype: Dtype of the model's weights.
        device: Device of the model's weights.

    Attributes:
        lengths: Tokens that count in each row, int64, shape ``(batch,)``. Writing a smaller number
            in place forgets what lies beyond.
        stored_heads: Keys and values of each layer, shape ``(layers, 2, batch, heads, max_length,
            head_dim)``.
    """

    def __init__(
        self,
        num_layers: int,
        shape: tuple[int, int, int, int],
        *,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        self.lengths: NDArray[np.int64] = np.zeros(shape[0], np.int64)
        # Zeros, not empty: a masked-out NaN in uninitialised memory would still poison a row.
        self.stored_heads = torch.zeros((num_layers, 2, *shape), dtype=dtype, device=device)
        self._stored = self.lengths.copy()
        self._max_length = shape[2]
        self._device = device
        self._rows = torch.arange(shape[0], device=device)[:, None]
        self._slots: Tensor | slice = slice(0, 0)
        self._stop = 0
        self._mask: Tensor | None = None
        self._on_host: NDArray[Any] | None = None

    def begin(self, batch_size: int, count: int) -> Tensor | slice:
        """Prepare to append ``count`` tokens to each row.

        Returns:
            Their positions: a slice where all rows are equally long, else int64 of shape
            ``(batch, count)``.

        Raises:
            InvalidInputError: If the batch differs from the cache's, a length is negative or more
                than was stored, or a row would overflow.
        """
        shortest, longest = self._check(batch_size, count)
        self._stop, self._mask = longest + count, None
        if shortest == longest:
            self._slots = slice(longest, self._stop)
            if count > 1:
                self._mask = self._causal(torch.arange(longest, self._stop, device=self._device))
        else:
            starts = torch.from_numpy(self.lengths).to(self._device)
            self._slots = starts[:, None] + torch.arange(count, device=self._device)
            self._mask = self._causal(self._slots).unsqueeze(1)
        return self._slots

    def begin_on_host(self, batch_size: int, count: int) -> tuple[list[int], NDArray[Any]]:
        """As :meth:`begin`, for numpy: each row's first new position, and all that is stored.

        The array shares the cache's memory. Only for caches on the host, of a dtype that numpy has.
        """
        self._check(batch_size, count)
        if self._on_host is None:
            self._on_host = self.stored_heads.numpy()
        return self.lengths.tolist(), self._on_host

    def extend(self, layer: int, fresh: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """Store one layer's new keys and values; returns all of them and the mask.

        Args:
            layer: Index of the layer.
            fresh: New keys and values, shape ``(2, batch, heads, count, head_dim)``.

        Returns:
            Keys and values up to the longest row, and the boolean attention mask (None where
            every query sees every key).
        """
        stored = self.stored_heads[layer]
        if isinstance(self._slots, slice):
            stored[:, :, :, self._slots] = fresh
        else:
            # Advanced indices apart from each other put their axes first: (batch, count, 2, ...).
            stored[:, self._rows, :, self._slots] = fresh.permute(1, 3, 0, 2, 4)
        keys, values = stored[:, :, :, : self._stop].unbind(0)
        return keys, values, self._mask

    def commit(self, count: int) -> None:
        """Count ``count`` appended tokens in each row, once every layer has stored its part."""
        self.lengths += count
        self._stored[:] = self.lengths

    def keep(self, rows: Sequence[int]) -> None:
        """Drop all other rows, and put these in this order.

        Args:
            rows: Indices of different rows, at least one.
        """
        chosen = torch.as_tensor(rows, device=self._device)
        self.stored_heads = self.stored_heads.index_select(2, chosen)
        self._on_host = None
        self.lengths, self._stored = self.lengths[rows], self._stored[rows]
        self._rows = self._rows[: len(rows)]

    def _causal(self, positions: Tensor) -> Tensor:
        # A query sees keys up to its own position: this hides a shorter row's leftovers, too. Two
        # axes or four: attention is slow with three.
        return torch.arange(self._stop, device=self._device) <= positions[..., None]

    def _check(self, batch_size: int, count: int) -> tuple[int, int]:
        if batch_size != len(self.lengths):
            raise InvalidInputError("tokens", f"{batch_size} rows for {len(self.lengths)} cached")
        # Lists: a few rows are compared in less time than one call of numpy takes.
        lengths, stored = self.lengths.tolist(), self._stored.tolist()
        shortest, longest = min(lengths), max(lengths)
        if shortest < 0 or any(map(operator.gt, lengths, stored)):
            raise InvalidInputError("cache", f"lengths {lengths} of the stored {stored}")
        if longest + count > self._max_length:
            raise InvalidInputError(
                "tokens", f"{count} after {longest} are more than the model's {self._max_length}"
            )
        return shortest, longest
