"""Affine maps of a few rows, from weights that lie in memory in the order they are read in.

A product of a few rows with a matrix costs what reading the matrix costs, if it is read in one
sweep. BLAS libraries take a row-major matrix in blocks of columns, which is no sweep. Here each
block is a contiguous panel of its own; the numbers agree up to rounding.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["PanelMap"]

Rows = NDArray[Any]

# A product of at most so many multiplications runs on one thread in OpenBLAS, numpy's usual BLAS,
# whose number of threads is not torch's.
_MOST_PRODUCTS = 2**18
_FEW_ROWS = 8
_WIDEST = 64


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
        self._bias = np.pad(bias, (0, count * width - self._outputs))
        self._at_once = max(_MOST_PRODUCTS // (inputs * width), 1)

    def __call__(self, rows: Rows) -> Rows:
        """Map rows of shape ``(n, inputs)`` to ``(n, outputs)``."""
        count, _, width = self._panels.shape
        product = np.empty((len(rows), count, width), rows.dtype)
        by_panel = product.transpose(1, 0, 2)
        for start in range(0, len(rows), self._at_once):
            stop = start + self._at_once
            np.matmul(rows[start:stop], self._panels, out=by_panel[:, start:stop])
        mapped: Rows = product.reshape(len(rows), count * width)
        mapped += self._bias
        return mapped[:, : self._outputs]


def _panels(weight: Rows) -> Rows:
    """Shape ``(panels, inputs, width)``; zeros fill up the last panel."""
    inputs, outputs = weight.shape
    width = _WIDEST
    while width > 1 and _FEW_ROWS * inputs * width > _MOST_PRODUCTS:
        width //= 2
    padded = np.pad(weight, ((0, 0), (0, -outputs % width)))
    return np.ascontiguousarray(padded.reshape(inputs, -1, width).transpose(1, 0, 2))
