"""Torch operators on tensors with symbolic cells."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.utils._pytree import tree_leaves

from specverify.exact import scalars
from specverify.exact.numpy_arrays import one_against_many
from specverify.exact.reals import SymbolicReal
from specverify.exact.tape import refuse
from specverify.exact.tokens import UnreadToken
from specverify.exact.torch_moves import MOVES, assign, move
from specverify.exact.torch_reductions import REDUCTIONS, SCANS, reduce, scan
from specverify.exact.torch_shadow import (
    contents,
    is_symbolic,
    new_tensor,
    settle,
    write,
)

__all__ = ["apply_symbolic", "symbolic_scalar"]

_UNARY: dict[str, Callable[[Any], Any]] = {
    "log": scalars.log,
    "exp": scalars.exp,
    "neg": operator.neg,
    "reciprocal": scalars.reciprocal,
    "log1p": scalars.log1p,
    "log2": scalars.log2,
    "sqrt": scalars.sqrt,
    "square": scalars.square,
    "positive": operator.pos,
    "floor": scalars.floor,
}
_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "rsub": lambda left, right: right - left,
    "mul": operator.mul,
    "div": scalars.divide,
    "pow": scalars.power,
    "maximum": scalars.maximum,
    "minimum": scalars.minimum,
}
_TESTS: dict[str, Callable[[Any], bool]] = {
    "isnan": scalars.isnan,
    "isinf": scalars.isinf,
    "isfinite": scalars.isfinite,
}
_LIKE = frozenset(
    {"empty_like", "zeros_like", "ones_like", "full_like", "sym_size", "is_same_size"}
    | {"new_zeros", "new_empty", "new_ones", "new_full"}
)


def _less(left: Any, right: Any) -> Any:
    if type(left) is SymbolicReal and type(right) is not SymbolicReal:
        return left.unread_less(float(right))
    if type(right) is SymbolicReal and type(left) is not SymbolicReal:
        return right.unread_greater(float(left))
    return left < right


_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "lt": _less,
    "le": _less,
    "gt": lambda left, right: _less(right, left),
    "ge": lambda left, right: _less(right, left),
    "eq": operator.eq,
    "ne": operator.ne,
}


def apply_symbolic(func: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """One operator, at least one of whose tensors has symbolic cells.

    Raises:
        UnsupportedRandomness: If it has no exact meaning on random values.
    """
    if "out" in kwargs:
        refuse(f"torch.{name}", "with out= on random values")
    in_place = name.endswith("_") and not name.startswith("_")
    base = name[:-1] if in_place else name
    if base in MOVES:
        return assign(base, func, args, kwargs) if in_place else move(base, func, args, kwargs)
    if base in SCANS and not in_place:
        return scan(base, args, kwargs)
    _settle_integers(args, kwargs)
    if not _still_symbolic(args, kwargs) or base in _LIKE:
        return func(*args, **kwargs)
    if base in REDUCTIONS and not in_place:
        return reduce(base, func, args, kwargs)
    result, dtype = _arithmetic(base, func, args, kwargs)
    if in_place:
        return write(args[0], result)
    return new_tensor(result, dtype, _first_tensor(args).device)


def _settle_integers(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    for leaf in tree_leaves((args, kwargs)):
        if isinstance(leaf, torch.Tensor) and not leaf.dtype.is_floating_point:
            settle(leaf)


def _still_symbolic(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    leaves = tree_leaves((args, kwargs))
    return any(isinstance(leaf, torch.Tensor) and is_symbolic(leaf) for leaf in leaves)


def _first_tensor(args: tuple[Any, ...]) -> torch.Tensor:
    tensors = [arg for arg in args if isinstance(arg, torch.Tensor)]
    return next((t for t in tensors if t.dtype.is_floating_point), tensors[0])


def _arithmetic(
    base: str, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any, torch.dtype]:
    """Cells and dtype of an elementwise operator."""
    operands = [contents(a) if isinstance(a, torch.Tensor) else a for a in args[:2]]
    if base in _UNARY:
        return _map(_UNARY[base], operands[0]), args[0].dtype
    if base in _TESTS:
        return _map(_TESTS[base], operands[0]), torch.bool
    if base in _COMPARISONS:
        together = one_against_many(base, operands)
        if together is not None:
            return together, torch.bool
        return _map(_COMPARISONS[base], *operands), torch.bool
    if base in ("clamp", "clamp_min", "clamp_max"):
        return _clamp(base, args, kwargs), args[0].dtype
    if base not in _BINARY or kwargs.get("rounding_mode"):
        refuse(f"torch.{func.overloadpacket.__name__}", "is not followed on random values")
    factor = kwargs.get("alpha", args[2] if len(args) > 2 else 1)
    if factor != 1:
        scaled = 0 if base == "rsub" else 1
        operands[scaled] = _map(lambda value: value * factor, operands[scaled])
    return _map(_BINARY[base], *operands), torch.result_type(args[0], args[1])


def _clamp(base: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    low = args[1] if len(args) > 1 and base != "clamp_max" else kwargs.get("min")
    high = args[1] if len(args) > 1 and base == "clamp_max" else kwargs.get("max")
    if base == "clamp" and len(args) > 2:
        high = args[2]
    if isinstance(low, torch.Tensor) or isinstance(high, torch.Tensor):
        refuse("torch.clamp", "with tensors as bounds of random values")
    return _map(lambda value: scalars.clamp(value, low, high), contents(args[0]))


def _map(function: Callable[..., Any], *operands: Any) -> Any:
    cells = [_cell(o) if type(o) in (SymbolicReal, UnreadToken) else o for o in operands]
    result = np.frompyfunc(function, len(cells), 1)(*cells)
    return result if isinstance(result, np.ndarray) else _cell(result)


def _cell(value: Any) -> Any:
    cell = np.empty((), dtype=object)
    cell[()] = value
    return cell


def symbolic_scalar(value: SymbolicReal, like: torch.Tensor) -> torch.Tensor:
    """A symbolic real as a zero-dimensional tensor, to meet another tensor."""
    return new_tensor(_cell(value), like.dtype, like.device)
