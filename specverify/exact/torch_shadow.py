"""What random tensors hold: a table from storage to symbolic cells, beside ordinary tensors.

The tensors stay plain ``torch.Tensor`` objects; the real memory of a symbolic cell holds NaN (or a
number no index can be). Views and in-place writes work because the table is keyed by the storage.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray
from torch.utils._python_dispatch import _disable_current_modes

from specverify.exact.reals import SymbolicReal
from specverify.exact.tape import refuse
from specverify.exact.tokens import UnreadToken

__all__ = [
    "Cells",
    "any_shadows",
    "cells_of",
    "contents",
    "filled_tensor",
    "forget",
    "is_symbolic",
    "memory",
    "new_tensor",
    "settle",
    "write",
]

Cells = NDArray[Any]

# Real memory of an unread integer: no vocabulary is that large.
_POISON = -(2**62)
_NUMPY_DTYPES = frozenset(
    {torch.float64, torch.float32, torch.float16, torch.int64, torch.int32, torch.int16}
    | {torch.int8, torch.uint8, torch.bool}
)
_numpy = torch.Tensor.numpy  # bound before it is patched


class _Shadow(NamedTuple):
    storage: Any  # kept alive, so that its address is not given to another tensor
    cells: Cells
    dtype: torch.dtype


_SYMBOLIC = frozenset((SymbolicReal, UnreadToken))
_shadows: dict[int, _Shadow] = {}


def forget() -> None:
    """Drop every symbolic cell: a new run begins."""
    _shadows.clear()


def any_shadows() -> bool:
    """Whether any tensor of this run is random."""
    return bool(_shadows)


def cells_of(tensor: torch.Tensor) -> Cells | None:
    """The symbolic cells under ``tensor``, in its shape, None where concrete; or None for all."""
    if not _shadows:
        return None
    shadow = _shadows.get(tensor.untyped_storage().data_ptr())
    if shadow is None or tensor.numel() == 0:
        return None
    if shadow.dtype != tensor.dtype:
        refuse("view", "a random tensor is read as another dtype")
    if tensor.dim() == 1 and tensor.numel() == shadow.cells.size and tensor.stride(0) == 1:
        return shadow.cells
    strides = tuple(8 * stride for stride in tensor.stride())
    return as_strided(shadow.cells[tensor.storage_offset() :], tuple(tensor.shape), strides)


def is_symbolic(tensor: torch.Tensor) -> bool:
    """Whether any cell of ``tensor`` is random and not known yet."""
    cells = cells_of(tensor)
    if cells is None:
        return False
    return any(cell is not None for cell in cells.ravel().tolist())


def memory(tensor: torch.Tensor) -> NDArray[Any]:
    """The real memory as numpy, shared where numpy knows the dtype."""
    if tensor.requires_grad:
        tensor = tensor.detach()
    if tensor.dtype in _NUMPY_DTYPES and tensor.device.type == "cpu":
        return _numpy(tensor)
    with _disable_current_modes():
        return _numpy(tensor.cpu().double())


def contents(tensor: torch.Tensor) -> Cells:
    """A copy as an object array: symbolic cells and python numbers."""
    real = memory(tensor)
    values = real.astype(object)
    cells = cells_of(tensor)
    if cells is None:
        return values
    if values.ndim == 0:
        return cells.copy() if cells[()] is not None else values
    flat = values.reshape(-1)
    for index, cell in enumerate(cells.ravel().tolist()):
        if cell is not None:
            flat[index] = cell.read() if type(cell) is UnreadToken and cell.was_read else cell
    return flat.reshape(values.shape)


def write(tensor: torch.Tensor, values: Any) -> torch.Tensor:
    """Store symbolic cells and numbers, broadcast to the tensor's shape."""
    shape = tuple(tensor.shape)
    array = values if isinstance(values, np.ndarray) else _one_cell(values)
    cells = (array if array.shape == shape else np.broadcast_to(array, shape)).ravel().tolist()
    hidden = [type(cell) in _SYMBOLIC for cell in cells]
    poison = float("nan") if tensor.dtype.is_floating_point else _poison(tensor.dtype)
    _write_memory(tensor, [poison if h else c for c, h in zip(cells, hidden, strict=True)])
    if any(hidden):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in _shadows:
            count = storage.nbytes() // tensor.element_size()
            blank = np.full(count, None, dtype=object)
            _shadows[storage.data_ptr()] = _Shadow(storage, blank, tensor.dtype)
    shadow = cells_of(tensor)
    if shadow is not None:
        put = np.empty(len(cells), dtype=object)
        put[:] = [cell if h else None for cell, h in zip(cells, hidden, strict=True)]
        shadow[...] = put.reshape(shape)
    return tensor


def _one_cell(value: Any) -> Cells:
    cell = np.empty((), dtype=object)
    cell[()] = value
    return cell


def _poison(dtype: torch.dtype) -> int:
    return _POISON if dtype == torch.int64 else 0


def _write_memory(tensor: torch.Tensor, real: list[Any]) -> None:
    if tensor.dtype in _NUMPY_DTYPES and tensor.device.type == "cpu":
        memory(tensor)[...] = np.asarray(real).reshape(tuple(tensor.shape))
        return
    with _disable_current_modes():
        plain = torch.tensor(real, dtype=torch.float64).reshape(tensor.shape)
        tensor.detach().copy_(plain)


def new_tensor(values: Any, dtype: torch.dtype, device: Any = None) -> torch.Tensor:
    """A fresh tensor that holds ``values`` (an object array of cells and numbers)."""
    cells = values.ravel()
    if cells.size and all(type(cell) in _SYMBOLIC for cell in cells.tolist()):
        poison = float("nan") if dtype.is_floating_point else _poison(dtype)
        tensor = torch.full(values.shape, poison, dtype=dtype, device=device)
        storage = tensor.untyped_storage()
        _shadows[storage.data_ptr()] = _Shadow(storage, cells.copy(), dtype)
        return tensor
    return write(torch.empty(values.shape, dtype=dtype, device=device), values)


def filled_tensor(shape: Any, draw: Any) -> Cells:
    """An object array of the given shape, each cell by a call of ``draw``."""
    cells = np.empty(tuple(shape), dtype=object)
    flat = cells.reshape(-1)
    for index in range(flat.size):
        flat[index] = draw()
    return cells


def settle(tensor: torch.Tensor) -> None:
    """Read every unread token in ``tensor``, in order; branches. Symbolic reals stay."""
    cells = cells_of(tensor)
    if cells is None:
        return
    real = memory(tensor)
    for index in np.ndindex(cells.shape):
        cell: Any = cells[index]
        if type(cell) is UnreadToken:
            real[index] = cell.read()
            cells[index] = None
