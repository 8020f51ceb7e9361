"""Affine maps of a few rows, from weights that lie in memory in the order they are read in.

A product of a few rows with a matrix costs what reading the matrix costs, if it is read in one
sweep. BLAS libraries take a row-major matrix in blocks of columns, which is no sweep. Here each
block is a contiguous panel of its own; the numbers agree up to rounding.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["PanelMap", "side_by_side"]

Rows = NDArray[Any]

# A product of at most so many multiplications runs on one thread in OpenBLAS, numpy's usual BLAS,
# whose number of threads is not torch's.
_MOST_PRODUCTS = 2**18
# As many rows as a pass over a draft of the usual length has: these are never taken in parts.
_FEW_ROWS = 5
_WIDEST = 64
# Kernels take rows by fours; a row left over costs them half of that.
_EVEN_ROWS = 4
# Bytes of a cache line, and of the processor's widest registers.
_LINE = 64


class PanelMap:
    """``rows @ weight + bias`` on a copy of both.

    Args:
        weight: Shape ``(inputs, outputs)``.
        bias: Shape ``(outputs,)``.
    """

    def __init__(self, weight: Rows, bias: Rows) -> None:
        self._outputs = weight.shape[1]
        self._panels = _panels(weight)
        count, inputs, width = self._panels.shape
        # Adding what has the same shape costs half of what adding one row to several costs.
        self._bias = np.tile(np.pad(bias, (0, count * width - self._outputs)), (_FEW_ROWS, 1))
        self._at_once = max(_MOST_PRODUCTS // (inputs * width), 1)

    def __call__(self, rows: Rows) -> Rows:
        """Map rows of shape ``(n, inputs)`` to ``(n, outputs)``."""
        n = len(rows)
        # The panels' parts of a single row lie one after the other as they are.
        product = np.matmul(rows, self._panels) if n == 1 else self._product(rows)
        mapped: Rows = product.reshape(n, -1)
        mapped += self._bias[:n] if n <= _FEW_ROWS else self._bias[0]
        return mapped if mapped.shape[1] == self._outputs else mapped[:, : self._outputs]

    def _product(self, rows: Rows) -> Rows:
        count, _, width = self._panels.shape
        product = np.empty((len(rows), count, width), rows.dtype)
        by_panel = product.swapaxes(0, 1)
        step = self._at_once
        if len(rows) > step > _EVEN_ROWS:
            step -= step % _EVEN_ROWS
        for start in range(0, len(rows), step):
            stop = start + step
            np.matmul(rows[start:stop], self._panels, out=by_panel[:, start:stop])
        return product


def side_by_side(maps: Iterable[PanelMap]) -> None:
    """Put the panels of maps into one block of memory, in the order in which a pass reads them.

    The system gives numpy's large blocks large pages, of which a pass needs few; and panels begin
    with a cache line.

    Args:
        maps: Of one dtype.
    """
    held = list(maps)
    dtype = held[0]._panels.dtype
    line = _LINE // dtype.itemsize
    sizes = [-(-each._panels.size // line) * line for each in held]
    block = np.empty(sum(sizes) + line, dtype)
    start = -block.ctypes.data % _LINE // dtype.itemsize
    for each, size in zip(held, sizes, strict=True):
        moved = block[start : start + each._panels.size].reshape(each._panels.shape)
        moved[:] = each._panels
        each._panels = moved
        start += size


def _panels(weight: Rows) -> Rows:
    """Shape ``(panels, inputs, width)``; zeros fill up the last panel."""
    inputs, outputs = weight.shape
    width = _WIDEST
    while width > 1 and _FEW_ROWS * inputs * width > _MOST_PRODUCTS:
        width //= 2
    padded = np.pad(weight, ((0, 0), (0, -outputs % width)))
    return np.ascontiguousarray(padded.reshape(inputs, -1, width).transpose(1, 0, 2))
