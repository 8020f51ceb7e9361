"""Numpy arrays of symbolic random reals."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from specverify.exact import scalars
from specverify.exact.forms import inverse
from specverify.exact.races import ranking, winner
from specverify.exact.reals import SymbolicReal
from specverify.exact.tape import refuse

__all__ = ["SymbolicArray", "apply_ufunc", "filled", "has_symbols", "search_index"]

_UNARY: dict[Any, Callable[[Any], Any]] = {
    np.log: scalars.log,
    np.exp: scalars.exp,
    np.negative: operator.neg,
    np.positive: operator.pos,
    np.reciprocal: scalars.reciprocal,
    np.log1p: scalars.log1p,
    np.log2: scalars.log2,
    np.sqrt: scalars.sqrt,
    np.square: scalars.square,
    np.floor: scalars.floor,
}
_BINARY: dict[Any, Callable[[Any, Any], Any]] = {
    np.add: operator.add,
    np.subtract: operator.sub,
    np.multiply: operator.mul,
    np.true_divide: scalars.divide,
    np.power: scalars.power,
    np.maximum: scalars.maximum,
    np.minimum: scalars.minimum,
}
_PREDICATES: dict[Any, Callable[..., Any]] = {
    np.less: operator.lt,
    np.less_equal: operator.le,
    np.greater: operator.gt,
    np.greater_equal: operator.ge,
    np.equal: operator.eq,
    np.not_equal: operator.ne,
    np.isnan: scalars.isnan,
    np.isfinite: scalars.isfinite,
    np.isinf: scalars.isinf,
}
_MOVES = frozenset(
    {"reshape", "ravel", "squeeze", "expand_dims", "concatenate", "stack", "take", "copy", "flip"}
    | {"take_along_axis", "broadcast_to", "shape", "ndim", "size", "transpose", "swapaxes", "roll"}
    | {"atleast_1d", "atleast_2d", "vstack", "hstack", "repeat", "tile", "delete", "insert"}
    | {"append", "where", "moveaxis", "array_split", "split"}
)


def filled(shape: Sequence[int], draw: Callable[[], Any]) -> Any:
    """An array of independent draws."""
    cells = np.empty(tuple(shape), dtype=object)
    flat = cells.reshape(-1)
    for index in range(flat.size):
        flat[index] = draw()
    return cells.view(SymbolicArray)


def has_symbols(value: Any) -> bool:
    """Whether an array or scalar holds a symbolic real."""
    if type(value) is SymbolicReal:
        return True
    if not isinstance(value, np.ndarray) or value.dtype != object:
        return False
    return any(type(cell) is SymbolicReal for cell in value.ravel().tolist())


def apply_ufunc(ufunc: Any, method: str, inputs: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """A numpy ufunc on arrays that hold symbolic reals.

    Raises:
        UnsupportedRandomness: For ufuncs and options without an exact meaning here.
    """
    if method != "__call__" or kwargs.get("out") is not None or kwargs.get("where") is not None:
        refuse(f"numpy.{ufunc.__name__}.{method}", "is not followed on random values")
    cells = [_as_cells(value) for value in inputs]
    if ufunc in _UNARY:
        return _wrap(np.frompyfunc(_UNARY[ufunc], 1, 1)(*cells))
    if ufunc in _BINARY:
        return _wrap(np.frompyfunc(_BINARY[ufunc], 2, 1)(*cells))
    together = one_against_many(ufunc.__name__, cells)
    if together is not None:
        return together
    if ufunc in _PREDICATES:
        answer = np.frompyfunc(_PREDICATES[ufunc], len(cells), 1)(*cells)
        return answer.astype(bool) if isinstance(answer, np.ndarray) else bool(answer)
    refuse(f"numpy.{ufunc.__name__}", "is not followed on random values")


_ORDERS = {
    name: less
    for less, stem in ((True, "less"), (False, "greater"))
    for name in (stem, f"{stem}_equal")
}
_SWAPPED = {"lt": True, "le": True, "gt": False, "ge": False}


def one_against_many(operation: str, operands: Sequence[Any]) -> NDArray[np.bool_] | None:
    """A comparison of one random value with several numbers, decided by one choice.

    Returns:
        The answers, or None where the operands are not of this kind.
    """
    less = _ORDERS.get(operation, _SWAPPED.get(operation))
    if less is None or max(np.size(operand) for operand in operands) < 2:
        return None
    left, right = (np.asarray(operand, dtype=object) for operand in operands)
    if _one_value(right) is not None:
        left, right, less = right, left, not less
    value = _one_value(left)
    bounds = right.ravel().tolist()
    if value is None or not _NUMBERS.issuperset(map(type, bounds)):
        return None
    numbers = right.astype(np.float64)
    if np.isnan(numbers).any():
        return None
    ordered = np.sort(numbers, axis=None)
    rank = value.index_among(inverse(value.form, ordered).tolist())
    # Bounds from that rank on are over the value; ties have probability zero.
    above: NDArray[np.bool_] = numbers >= (ordered[rank] if rank < ordered.size else np.inf)
    if left.ndim > above.ndim or left.size > 1:
        shape = np.broadcast_shapes(left.shape, right.shape)
        above = np.broadcast_to(above, shape).copy()
    return above if less else ~above


_NUMBERS = frozenset((float, int, bool, np.float64))


def _one_value(cells: Any) -> Any:
    flat = cells.ravel().tolist()
    first = flat[0] if flat else None
    one = type(first) is SymbolicReal and all(cell is first for cell in flat)
    return first if one else None


def search_index(edges: Any, value: Any, side: str = "left") -> Any:
    """``numpy.searchsorted`` of symbolic values in certain, increasing edges."""
    edges = np.asarray(edges)
    if has_symbols(edges):
        refuse("searchsorted", "into a random sequence")
    if type(value) is not SymbolicReal:
        found = [search_index(edges, one, side) for one in np.asarray(value, dtype=object).ravel()]
        return np.asarray(found, dtype=np.int64).reshape(np.shape(value))
    # Ties have probability zero, so both sides agree.
    return value.index_among([float(v) for v in inverse(value.form, edges.astype(np.float64))])


def _as_cells(value: Any) -> NDArray[Any]:
    if type(value) is SymbolicReal:
        return value.__array__()  # type: ignore[no-any-return]
    if isinstance(value, np.ndarray):
        return value.view(np.ndarray).astype(object)
    return np.asarray(value).astype(object)


def _wrap(result: Any) -> Any:
    if not isinstance(result, np.ndarray):
        return result
    if result.ndim == 0:
        return result[()]
    return result.view(SymbolicArray) if has_symbols(result) else result.astype(np.float64)


def _plain(value: Any) -> Any:
    if isinstance(value, SymbolicArray):
        return value.view(np.ndarray)
    if isinstance(value, list | tuple):
        return type(value)(_plain(item) for item in value)
    if type(value) is SymbolicReal:
        return value.__array__()
    return value


class SymbolicArray(np.ndarray[Any, Any]):
    """An object array with symbolic cells that behaves like the float array it stands for."""

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return apply_ufunc(ufunc, method, inputs, kwargs)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        name = func.__name__
        if name in ("argmax", "argmin", "argsort"):
            return getattr(_as_array(args[0]), name)(*args[1:], **kwargs)
        if name == "searchsorted":
            return search_index(*args, **kwargs)
        if name in _MOVES:
            moved = func(*_plain(args), **{key: _plain(value) for key, value in kwargs.items()})
            return [_wrap(part) for part in moved] if isinstance(moved, list) else _wrap(moved)
        refuse(f"numpy.{name}", "is not followed on random values")

    def __getitem__(self, key: Any) -> Any:
        return _wrap(self.view(np.ndarray)[key])

    def argmax(self, axis: Any = None, *args: Any, **kwargs: Any) -> Any:
        """Race along an axis."""
        return self._along(axis, lambda keys: winner(keys, "argmax"))

    def argmin(self, axis: Any = None, *args: Any, **kwargs: Any) -> Any:
        """Race to the smallest."""
        return self._along(axis, lambda keys: winner([-key for key in keys], "argmin"))

    def argsort(self, axis: Any = -1, *args: Any, **kwargs: Any) -> Any:
        """Order of one race."""
        if self.ndim != 1:
            refuse("numpy.argsort", "of several rows of random values")
        order = ranking([-key for key in self.view(np.ndarray).tolist()], self.size, "argsort")
        return np.asarray(order, dtype=np.int64)

    def astype(self, dtype: Any, *args: Any, **kwargs: Any) -> Any:
        """Integers are floors and branch; floats stay symbolic."""
        if np.issubdtype(np.dtype(dtype), np.integer):
            whole = [int(cell) for cell in self.view(np.ndarray).ravel().tolist()]
            return np.asarray(whole, dtype=dtype).reshape(self.shape)
        return self

    def item(self, *args: Any) -> Any:
        """One cell."""
        return self.view(np.ndarray).item(*args)

    def _along(self, axis: Any, pick: Callable[[list[Any]], int]) -> Any:
        cells = self.view(np.ndarray)
        if axis is None:
            return pick(cells.ravel().tolist())
        rows = np.moveaxis(cells, axis, -1)
        found = [pick(row.tolist()) for row in rows.reshape(-1, rows.shape[-1])]
        answer = np.asarray(found, dtype=np.int64).reshape(rows.shape[:-1])
        return answer if answer.ndim else int(answer)

    def _refuse(self, *args: Any, **kwargs: Any) -> NoReturn:
        refuse("a numpy reduction", "of random values")

    sum = cumsum = prod = mean = max = min = std = var = any = all = sort = cumprod = dot = _refuse
    searchsorted = round = clip = partition = argpartition = _refuse


def _as_array(value: Any) -> Any:
    return value if isinstance(value, np.ndarray) else np.asarray(value).view(SymbolicArray)
