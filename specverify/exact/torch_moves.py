"""Operators that only move data: carried out by torch itself, on tensors of cell numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch.utils._pytree import tree_leaves, tree_map

from specverify.exact.reals import SymbolicReal
from specverify.exact.tape import refuse
from specverify.exact.tokens import UnreadToken
from specverify.exact.torch_shadow import contents, memory, new_tensor, settle, write

__all__ = ["MOVES", "assign", "from_nested", "move"]

# Their first argument is data; the other tensors are indices or masks and must be certain.
_INDEXED = frozenset(
    {"index", "gather", "index_select", "take", "take_along_dim", "masked_select", "_unsafe_index"}
)
# Every tensor argument of the data's kind is data.
_MERGING = frozenset(
    {"cat", "stack", "where", "clone", "_to_copy", "flip", "roll", "repeat", "contiguous"}
    | {"constant_pad_nd", "tril", "triu", "masked_fill", "scatter", "index_put", "copy", "fill"}
    | {"zero", "expand_copy", "view_copy", "diagonal_copy", "slice_scatter", "select_scatter"}
    | {"squeeze_copy", "permute_copy", "unbind_copy", "slice_copy"}
)
MOVES = _INDEXED | _MERGING


class _Numbering:
    """Cells by number; number 0 stands for the value 0, which padding and masks write."""

    def __init__(self, floating: bool) -> None:
        self.floating = floating
        self.pool: list[Any] = [0.0 if floating else 0]

    def encode(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            if value.dtype == torch.bool or value.dtype.is_floating_point != self.floating:
                return value
            cells = contents(value)
            start = len(self.pool)
            self.pool.extend(cells.ravel().tolist())
            ids = torch.arange(start, len(self.pool)).reshape(cells.shape)
            return ids.double() if self.floating else ids
        return value

    def number(self, value: float | int) -> float | int:
        self.pool.append(value)
        return float(len(self.pool) - 1) if self.floating else len(self.pool) - 1

    def decode(self, ids: torch.Tensor) -> Any:
        numbers = memory(ids).astype(np.int64)
        cells = np.empty(numbers.shape, dtype=object)
        flat = cells.reshape(-1)
        for index, number in enumerate(numbers.ravel().tolist()):
            flat[index] = self.pool[number]
        return cells


def move(base: str, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The result of a data movement, as new tensors."""
    if base == "_to_copy":
        return _convert(args[0], kwargs, func)
    data = _data_tensors(base, args)
    floating = any(tensor.dtype.is_floating_point for tensor in data)
    _settle_others(args, kwargs, floating, base)
    if data[0].dtype == torch.bool or not _has_cells(data):
        for tensor in data:
            settle(tensor)
        return func(*args, **kwargs)
    dtype = data[0].dtype
    for tensor in data[1:]:
        dtype = torch.promote_types(dtype, tensor.dtype)
    if base in ("cat", "stack"):
        return new_tensor(_join(base, data, args, kwargs), dtype, data[0].device)
    numbering = _Numbering(floating)
    if base in _INDEXED:
        coded: Any = (numbering.encode(args[0]), *args[1:])
    elif base in ("index_put", "scatter"):
        values = args[-1] if isinstance(args[-1], torch.Tensor) else None
        last = numbering.number(args[-1]) if values is None else numbering.encode(values)
        coded = (numbering.encode(args[0]), *args[1:-1], last)
    else:
        coded = tuple(_encode(numbering, arg, base, place) for place, arg in enumerate(args))
    moved = func(*coded, **kwargs)
    return tree_map(lambda ids: new_tensor(numbering.decode(ids), dtype, data[0].device), moved)


def _join(base: str, data: list[torch.Tensor], args: Any, kwargs: Any) -> Any:
    axis = args[1] if len(args) > 1 else kwargs.get("dim", 0)
    if base == "stack":
        return np.stack([contents(tensor) for tensor in data], axis=axis)
    # Torch lets an empty vector join tensors of any rank.
    parts = [t for t in data if t.dim() != 1 or t.numel()] or data[:1]
    return np.concatenate([contents(tensor) for tensor in parts], axis=axis)


def _encode(numbering: _Numbering, arg: Any, base: str, place: int) -> Any:
    if isinstance(arg, list | tuple) and any(isinstance(item, torch.Tensor) for item in arg):
        return [numbering.encode(item) for item in arg]
    scalar = isinstance(arg, float | int) and not isinstance(arg, bool)
    if scalar and (base, place) in _SCALAR_DATA:
        return numbering.number(arg)
    return numbering.encode(arg)


_SCALAR_DATA = {("where", 1), ("where", 2), ("masked_fill", 2), ("constant_pad_nd", 2)}


def _data_tensors(base: str, args: tuple[Any, ...]) -> list[torch.Tensor]:
    if base in _INDEXED:
        return [args[0]]
    if base in ("index_put", "scatter", "masked_fill"):
        return [t for t in (args[0], args[-1]) if isinstance(t, torch.Tensor)]
    leaves = [leaf for leaf in tree_leaves(args) if isinstance(leaf, torch.Tensor)]
    return leaves[1:] if base == "where" else leaves


def _has_cells(tensors: list[torch.Tensor]) -> bool:
    return any(
        type(cell) is SymbolicReal or type(cell) is UnreadToken
        for tensor in tensors
        for cell in contents(tensor).ravel().tolist()
    )


def _settle_others(args: Any, kwargs: Any, floating: bool, base: str) -> None:
    """Indices, masks and integers that meet floats must be known."""
    for place, arg in enumerate(args):
        data = base not in _INDEXED or place == 0
        for leaf in tree_leaves(arg):
            if not isinstance(leaf, torch.Tensor):
                continue
            mask = base in ("where", "masked_fill", "index_put", "scatter") and leaf.dtype in (
                torch.bool,
                torch.int64,
            )
            first = place == 0 and base != "where"
            last = place == len(args) - 1 and base not in _INDEXED
            index = mask and not first and not last
            if index or not data or (floating and not leaf.dtype.is_floating_point):
                settle(leaf)


def _convert(tensor: torch.Tensor, kwargs: dict[str, Any], func: Any) -> torch.Tensor:
    """A copy in another dtype; floats cannot become integers, tokens become floats when read."""
    dtype = kwargs.get("dtype") or tensor.dtype
    if tensor.dtype.is_floating_point and not dtype.is_floating_point:
        refuse("torch.to", "a random real is cast to an integer")
    if dtype.is_floating_point != tensor.dtype.is_floating_point:
        settle(tensor)
        copied: torch.Tensor = func(tensor, **kwargs)
        return copied
    return new_tensor(contents(tensor), dtype, kwargs.get("device") or tensor.device)


def assign(base: str, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.Tensor:
    """An in-place data movement."""
    target: torch.Tensor = args[0]
    if base == "zero":
        return write(target, 0)
    if base in ("fill", "copy"):
        source = args[1]
        if isinstance(source, torch.Tensor):
            if source.dtype.is_floating_point != target.dtype.is_floating_point:
                settle(source)
            if source.dtype.is_floating_point and not target.dtype.is_floating_point:
                return write(target, _whole(contents(source)))
            return write(target, contents(source))
        return write(target, source)
    plain = getattr(torch.ops.aten, base)
    overload = getattr(plain, func._overloadname)
    moved = move(base, overload, args, kwargs)
    return write(target, contents(moved))


def _whole(cells: Any) -> Any:
    if any(type(cell) is SymbolicReal for cell in cells.ravel().tolist()):
        refuse("torch.copy_", "a random real is cast to an integer")
    return np.trunc(cells.astype(np.float64)).astype(np.int64).astype(object)


def from_nested(data: Any, dtype: torch.dtype | None, device: Any) -> torch.Tensor:
    """A tensor from a nested list (or a scalar) that holds symbolic values."""
    array = data.view(np.ndarray) if isinstance(data, np.ndarray) else _nested(data)
    flat = array.ravel().tolist()
    real = any(type(cell) is SymbolicReal or type(cell) is float for cell in flat)
    dtype = dtype or (torch.get_default_dtype() if real else torch.int64)
    if real and not dtype.is_floating_point:
        refuse("torch.tensor", "a random real is cast to an integer")
    return new_tensor(array, dtype, device)


def _nested(data: Any) -> Any:
    """An object array of the nesting's shape; numpy would try to look into the cells."""
    if not isinstance(data, list | tuple):
        cell = np.empty((), dtype=object)
        cell[()] = data
        return cell
    return np.stack([_nested(item) for item in data])
