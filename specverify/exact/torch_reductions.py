"""Races, searches and scans over symbolic cells."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from specverify.exact.numpy_arrays import search_index
from specverify.exact.races import ranking, unread_winner, winner
from specverify.exact.reals import SymbolicReal
from specverify.exact.tape import refuse
from specverify.exact.torch_shadow import contents, is_symbolic, new_tensor

__all__ = ["REDUCTIONS", "SCANS", "reduce", "scan"]

REDUCTIONS = frozenset(
    {"argmax", "argmin", "max", "min", "topk", "sort", "argsort", "searchsorted", "bucketize"}
)
SCANS = frozenset(["cumprod"])


def scan(base: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.Tensor:
    """A running product: what follows a zero is never read."""
    tensor, dim = args[0], args[1] if len(args) > 1 else kwargs["dim"]
    if tensor.dtype.is_floating_point:
        refuse("torch.cumprod", "of random reals")
    cells = np.moveaxis(contents(tensor), dim, -1).copy()
    for row in cells.reshape(-1, cells.shape[-1]):
        product = 1
        for index, cell in enumerate(row.tolist()):
            product = product * int(cell) if product else 0
            row[index] = product
    return new_tensor(np.moveaxis(cells, -1, dim), kwargs.get("dtype") or torch.int64)


def reduce(base: str, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """An index (or the largest values) along an axis, or a search."""
    if base in ("searchsorted", "bucketize"):
        return _search(base, args, kwargs)
    if base in ("topk", "sort", "argsort"):
        return _order(base, args, kwargs)
    if base in ("max", "min"):
        return _extreme(base, func, args, kwargs)
    dim = args[1] if len(args) > 1 else kwargs.get("dim")
    keep = args[2] if len(args) > 2 else kwargs.get("keepdim", False)
    sign = -1 if base == "argmin" else 1
    return _along(args[0], dim, keep, lambda keys: unread_winner(_signed(keys, sign), base))


def _signed(keys: list[Any], sign: int) -> list[Any]:
    return keys if sign > 0 else [-key for key in keys]


def _along(
    tensor: torch.Tensor, dim: int | None, keep: bool, pick: Callable[[list[Any]], Any]
) -> torch.Tensor:
    cells = contents(tensor)
    if dim is None:
        cells, dim = cells.reshape(-1), 0
    rows = np.moveaxis(cells, dim, -1)
    picked = np.empty(rows.shape[:-1], dtype=object)
    flat = picked.reshape(-1)
    for index, row in enumerate(rows.reshape(-1, rows.shape[-1])):
        flat[index] = pick(row.tolist())
    picked = flat.reshape(rows.shape[:-1])
    return new_tensor(np.expand_dims(picked, dim) if keep else picked, torch.int64, tensor.device)


def _extreme(base: str, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """``max`` and ``min``; the winning value itself stays random, with its noise spent."""
    tensor, sign = args[0], (1 if base == "max" else -1)
    if func._overloadname == "other":
        refuse(f"torch.{base}", "of two tensors of random values")
    if func._overloadname != "dim":
        keys = contents(tensor).ravel().tolist()
        best = keys[winner(_signed(keys, sign), base)]
        cell = np.empty((), dtype=object)
        cell[()] = best
        return new_tensor(cell, tensor.dtype, tensor.device)
    dim, keep = args[1], args[2] if len(args) > 2 else kwargs.get("keepdim", False)
    won = _along(tensor, dim, True, lambda keys: winner(_signed(keys, sign), base))
    where = contents(won).astype(np.int64)
    values = np.take_along_axis(contents(tensor), where, dim)
    if not keep:
        values, where = np.squeeze(values, dim), np.squeeze(where, dim)
    kind = torch.return_types.max if base == "max" else torch.return_types.min
    return kind((new_tensor(values, tensor.dtype), new_tensor(where.astype(object), torch.int64)))


def _order(base: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    tensor = args[0]
    if base == "topk":
        count, dim = args[1], args[2] if len(args) > 2 else kwargs.get("dim", -1)
        descending = args[3] if len(args) > 3 else kwargs.get("largest", True)
    else:
        dim = args[1] if len(args) > 1 else kwargs.get("dim", -1)
        descending = args[2] if len(args) > 2 else kwargs.get("descending", False)
        if not isinstance(dim, int):
            refuse(f"torch.{base}", "in this overload")
        count = tensor.shape[dim]
    rows = np.moveaxis(contents(tensor), dim, -1)
    order = np.empty((*rows.shape[:-1], count), dtype=np.int64)
    for index in np.ndindex(rows.shape[:-1]):
        order[index] = ranking(_signed(rows[index].tolist(), 1 if descending else -1), count, base)
    order = np.moveaxis(order, -1, dim)
    indices = torch.from_numpy(np.ascontiguousarray(order))
    if base == "argsort":
        return indices
    values = np.take_along_axis(contents(tensor), order, dim)
    return new_tensor(values, tensor.dtype, tensor.device), indices


def _search(base: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.Tensor:
    edges, values = (args[0], args[1]) if base == "searchsorted" else (args[1], args[0])
    if is_symbolic(edges):
        refuse("torch.searchsorted", "into a random sequence")
    if kwargs.get("sorter") is not None:
        refuse("torch.searchsorted", "with sorter=")
    rows = contents(edges).astype(np.float64)
    found = np.empty(tuple(values.shape), dtype=object)
    cells = contents(values)
    for index in np.ndindex(found.shape):
        row = rows if rows.ndim == 1 else rows[index[:-1]]
        cell: Any = cells[index]
        if type(cell) is not SymbolicReal:
            right = kwargs.get("right") or kwargs.get("side") == "right"
            found[index] = int(np.searchsorted(row, float(cell), "right" if right else "left"))
            continue
        found[index] = search_index(row, cell)
    return new_tensor(found, torch.int64, values.device)
