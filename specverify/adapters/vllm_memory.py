"""Memory of tensors and pointers into it, for kernels over a stand-in of Triton's language."""

from __future__ import annotations

from typing import Any

import numpy as np

from specverify.adapters.vllm_language import Cells, Value, boxed, is_random, python, raw

__all__ = ["Memory", "Pointer"]


class Memory:
    """What a tensor holds, flat.

    Args:
        cells: The tensor's own memory, or objects where some are random.
        dtype: Dtype of the tensor.
    """

    def __init__(self, cells: Cells, dtype: np.dtype[Any]) -> None:
        self.cells, self.dtype = cells, dtype
        self.element_ty = dtype.type

    def load(self, places: Any, mask: Any, other: Any) -> Value:
        """Cells at ``places``, ``other`` where the mask forbids a look."""
        mask, other = raw(mask), raw(other)
        if not isinstance(places, np.ndarray):
            if mask is not None and not mask:
                return Value(self.dtype.type(other))
            self.check(int(places), int(places))
            return Value(self.cells[int(places)])
        return Value(self.gather(places, mask, other))

    def gather(self, places: Cells, allowed: Any, other: Any) -> Any:
        """Cells at an array of places, ``other`` where a mask forbids a look."""
        if allowed is None or np.asarray(allowed).all():  # mostly: then nothing is selected
            self.check(int(places.min()), int(places.max()))
            return self.cells.take(places)
        places, allowed = np.broadcast_arrays(places, allowed)
        wanted = places[allowed]
        if wanted.size:
            self.check(int(wanted.min()), int(wanted.max()))
        found = np.full(places.shape, 0 if other is None else other, dtype=self.cells.dtype)
        found[allowed] = self.cells.take(wanted)
        return found

    def store(self, places: Any, value: Any, mask: Any) -> None:
        """Write where the mask allows it."""
        mask, value = raw(mask), raw(value)
        if is_random(value) and self.cells.dtype != object:
            self.cells = self.cells.astype(object)
        if not isinstance(places, np.ndarray):
            if mask is None or mask:
                self.check(int(places), int(places))
                self.cells[int(places)] = self._cell(value)
            return
        allowed = np.broadcast_to(True if mask is None else mask, places.shape)
        wanted = places[allowed]
        if wanted.size:
            self.check(int(wanted.min()), int(wanted.max()))
        self.cells[wanted] = np.broadcast_to(boxed(value), places.shape)[allowed]

    def _cell(self, value: Any) -> Any:
        return python(value) if self.cells.dtype == object else value

    def check(self, first: int, last: int) -> None:
        """Refuse places outside of the tensor.

        Raises:
            IndexError: If the first is negative, or the last too large.
        """
        if first < 0 or last >= self.cells.size:
            raise IndexError(f"cells {first} to {last} of a tensor of {self.cells.size}")


class Pointer:
    """A place in memory, or a block of places.

    Args:
        memory: The tensor's.
        places: Index, or array of indices.
    """

    __slots__ = ("memory", "places")

    def __init__(self, memory: Memory, places: Any = 0) -> None:
        self.memory, self.places = memory, places

    @property
    def dtype(self) -> Memory:
        """What tells the type of the elements."""
        return self.memory

    def __add__(self, offset: Any) -> Pointer:
        return Pointer(self.memory, self.places + raw(offset))

    def __sub__(self, offset: Any) -> Pointer:
        return Pointer(self.memory, self.places - raw(offset))
