"""As much of Triton's language as vLLM's samplers are written in: values, pointers, functions.

A kernel is a Python function over ``tl``; handed :data:`LANGUAGE` in its place it runs program by
program on numpy's scalars and arrays, many times quicker than in Triton's interpreter. Memory may
hold the exact tracer's random values: arithmetic and comparisons are then theirs, and an ``argmax``
of such values is a race that is run only when somebody asks who won.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specverify.exact import scalars
from specverify.exact.races import unread_winner
from specverify.exact.reals import SymbolicReal
from specverify.exact.tape import refuse
from specverify.exact.tokens import UnreadToken

__all__ = ["LANGUAGE", "Largest", "Memory", "Pick", "Pointer", "Value", "program"]

Cells = NDArray[Any]

program: list[int] = [0, 0, 0]
"""Indices of the program that runs, by axis of the grid."""


class Pick:
    """Index of the largest of several keys, some of them random; no race is run until it is read.

    Args:
        keys: Numbers and symbolic reals.
    """

    def __init__(self, keys: Sequence[Any]) -> None:
        self.keys = keys
        self._token: UnreadToken | int | None = None

    def token(self) -> UnreadToken | int:
        """The winner, undecided unless it is certain."""
        if self._token is None:
            self._token = unread_winner(self.keys, "tl.argmax")
        return self._token

    def __index__(self) -> int:
        return int(self.token())

    def __add__(self, other: Any) -> Any:
        return self if other == 0 else int(self) + other

    __radd__ = __add__

    def at_most(self, bound: Any) -> Any:
        """The smaller of index and bound: itself where the bound excludes nothing."""
        runs = [i for i, k in enumerate(self.keys) if type(k) is SymbolicReal or k > -np.inf]
        return self if max(runs, default=0) <= bound else min(int(self), bound)


class Largest:
    """The largest of several keys, some of them random, of which only this is known.

    Args:
        keys: Numbers and symbolic reals.
    """

    def __init__(self, keys: Sequence[Any]) -> None:
        self._keys = keys

    def __gt__(self, other: Any) -> bool:
        if other != -np.inf:
            refuse("tl.max", "the largest of random values is compared with a number")
        return any(type(key) is SymbolicReal or key > -np.inf for key in self._keys)

    def __ne__(self, other: object) -> bool:
        if other is not self:
            refuse("tl.max", "the largest of random values is compared")
        return False  # how a kernel asks for NaN

    __hash__ = None  # type: ignore[assignment]


_SCALARS = frozenset(
    (np.bool_, np.int32, np.int64, np.uint32, np.uint64, np.float32, np.float64, int, float, bool)
)
_RANDOM = frozenset((SymbolicReal, UnreadToken, Pick, Largest))


def _is_random(data: Any) -> bool:
    kind = type(data)
    return data.dtype.kind == "O" if kind is np.ndarray else kind in _RANDOM


def _raw(operand: Any) -> Any:
    return operand.data if type(operand) is Value else operand


def _python(data: Any) -> Any:
    return data.item() if isinstance(data, np.generic) else data


def _apply(plain: Callable[..., Any], symbolic: Callable[..., Any], *operands: Any) -> Value:
    """One elementwise operation: numpy's, or on cells where one is random."""
    values = [_raw(operand) for operand in operands]
    if not any(_is_random(value) for value in values):
        return Value(plain(*values))
    if not any(isinstance(value, np.ndarray) for value in values):
        found = symbolic(*(_python(value) for value in values))
        return Value(np.bool_(found) if type(found) is bool else found)
    boxed = [_boxed(value) for value in values]
    cells = np.frompyfunc(symbolic, len(boxed), 1)(*boxed)
    known = all(type(cell) is bool for cell in cells.tolist())
    return Value(cells.astype(np.bool_) if known else cells)


def _boxed(value: Any) -> Any:
    """A random scalar as an array, which numpy does not look into."""
    if type(value) not in _RANDOM:
        return value
    cell = np.empty((), dtype=object)
    cell[()] = value
    return cell


def _binary(
    plain: Callable[[Any, Any], Any], symbolic: Callable[[Any, Any], Any]
) -> tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]:
    """An operator's method and its reflection."""

    def method(self: Any, other: Any) -> Value:
        left, right = self.data, other.data if type(other) is Value else other
        known = type(left) in _SCALARS or not _is_random(left)
        if known and (type(right) in _SCALARS or not _is_random(right)):  # mostly
            return Value(plain(left, right))
        return _apply(plain, symbolic, self, other)

    return method, lambda self, other: _apply(plain, symbolic, other, self)


class Value:
    """A scalar or block of a kernel: numpy's with its dtype, or one that holds random values.

    Args:
        data: A numpy scalar or array, a random value, or an array of objects that are such.
    """

    __slots__ = ("data",)

    def __init__(self, data: Any) -> None:
        self.data = data

    def to(self, dtype: Any) -> Value:
        """The value in another dtype; random values are real numbers in any."""
        return self if _is_random(self.data) else Value(self.data.astype(dtype))

    def __bool__(self) -> bool:
        return bool(self.data)

    def __index__(self) -> int:
        return operator.index(self.data)

    def __neg__(self) -> Value:
        return _apply(operator.neg, operator.neg, self)

    def __invert__(self) -> Value:
        return Value(~self.data)

    __add__, __radd__ = _binary(operator.add, operator.add)
    __sub__, __rsub__ = _binary(operator.sub, operator.sub)
    __mul__, __rmul__ = _binary(operator.mul, operator.mul)
    __truediv__, __rtruediv__ = _binary(np.true_divide, scalars.divide)
    __and__, __rand__ = _binary(operator.and_, operator.and_)
    __or__, __ror__ = _binary(operator.or_, operator.or_)
    __xor__, __rxor__ = _binary(operator.xor, operator.xor)
    __lshift__, _ = _binary(operator.lshift, operator.lshift)
    __rshift__, _ = _binary(operator.rshift, operator.rshift)
    __lt__, _ = _binary(operator.lt, operator.lt)
    __le__, _ = _binary(operator.le, operator.le)
    __gt__, _ = _binary(operator.gt, operator.gt)
    __ge__, _ = _binary(operator.ge, operator.ge)
    __eq__, _ = _binary(operator.eq, operator.eq)
    __ne__, _ = _binary(operator.ne, operator.ne)
    __hash__ = None  # type: ignore[assignment]


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
        mask, other = _raw(mask), _raw(other)
        if not isinstance(places, np.ndarray):
            if mask is not None and not mask:
                return Value(self.dtype.type(other))
            self._check(int(places), int(places))
            return Value(self.cells[int(places)])
        allowed = np.broadcast_to(True if mask is None else mask, places.shape)
        found = np.full(places.shape, 0 if other is None else other, dtype=self.cells.dtype)
        wanted = places[allowed]
        if wanted.size:
            self._check(int(wanted.min()), int(wanted.max()))
        found[allowed] = self.cells[wanted]
        return Value(found)

    def store(self, places: Any, value: Any, mask: Any) -> None:
        """Write where the mask allows it."""
        mask, value = _raw(mask), _raw(value)
        if _is_random(value) and self.cells.dtype != object:
            self.cells = self.cells.astype(object)
        if not isinstance(places, np.ndarray):
            if mask is None or mask:
                self._check(int(places), int(places))
                self.cells[int(places)] = self._cell(value)
            return
        allowed = np.broadcast_to(True if mask is None else mask, places.shape)
        wanted = places[allowed]
        if wanted.size:
            self._check(int(wanted.min()), int(wanted.max()))
        self.cells[wanted] = np.broadcast_to(_boxed(value), places.shape)[allowed]

    def _cell(self, value: Any) -> Any:
        return _python(value) if self.cells.dtype == object else value

    def _check(self, first: int, last: int) -> None:
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
        return Pointer(self.memory, self.places + _raw(offset))

    def __sub__(self, offset: Any) -> Pointer:
        return Pointer(self.memory, self.places - _raw(offset))


def _max(value: Value, axis: int = 0, *, return_indices: bool = False) -> Any:
    data = value.data
    if _is_random(data):
        keys = data.tolist()
        return (Value(Largest(keys)), Value(Pick(keys))) if return_indices else Value(Largest(keys))
    index = np.int32(data.argmax())
    return (Value(data[index]), Value(index)) if return_indices else Value(data[index])


def _argmax(value: Value, axis: int = 0) -> Value:
    data = value.data
    if not _is_random(data):
        return Value(np.int32(data.argmax()))
    return Value(np.int32(0)) if data.size == 1 else Value(Pick(data.tolist()))


def _where(condition: Any, left: Any, right: Any) -> Value:
    chosen, one, other = _raw(condition), _raw(left), _raw(right)
    if isinstance(chosen, np.ndarray):
        return Value(np.where(chosen, _boxed(one), _boxed(other)))
    picked = one if bool(chosen) else other
    if isinstance(picked, bool | int | float):
        like = other if bool(chosen) else one
        picked = like.dtype.type(picked) if isinstance(like, np.generic) else np.array(picked)[()]
    return Value(picked)


def _smaller(left: Any, right: Any) -> Any:
    return left.at_most(right) if type(left) is Pick else scalars.minimum(left, right)


def _rand(seed: Value, offset: Value) -> Value:
    """Triton's uniform: Philox of 32-bit words, ten rounds, 31 bits of the first word."""
    word = 0xFFFFFFFF
    key, place = int(seed) & (2**64 - 1), int(offset) & (2**64 - 1)
    k0, k1 = key & word, key >> 32
    c0, c1, c2, c3 = place & word, place >> 32, 0, 0
    for _ in range(10):
        low, high = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1 = (high >> 32) ^ c1 ^ k0, high & word
        c2, c3 = (low >> 32) ^ c3 ^ k1, low & word
        k0, k1 = (k0 + 0x9E3779B9) & word, (k1 + 0xBB67AE85) & word
    signed = c0 if c0 < 2**31 else c0 ^ word
    return Value(np.float32(signed) * np.float32(4.6566127342e-10))


LANGUAGE = SimpleNamespace(
    **{name: getattr(np, name) for name in ("float32", "float64", "int32", "int64")},
    **{name: getattr(np, name) for name in ("uint8", "uint32", "uint64")},
    program_id=lambda axis: Value(np.int32(program[axis])),
    load=lambda pointer, mask=None, other=None: pointer.memory.load(pointer.places, mask, other),
    store=lambda pointer, value, mask=None: pointer.memory.store(pointer.places, value, mask),
    arange=lambda start, end: Value(np.arange(start, end, dtype=np.int32)),
    zeros=lambda shape, dtype: Value(np.zeros(shape, dtype)[()]),
    full=lambda shape, value, dtype: Value(np.full(shape, _raw(value), dtype)[()]),
    cast=lambda value, dtype: Value(np.asarray(_raw(value)).astype(dtype)[()]),
    where=_where,
    max=_max,
    argmax=_argmax,
    sum=lambda value, axis=0: Value(value.data.sum()),
    maximum=lambda left, right: _apply(np.maximum, scalars.maximum, left, right),
    minimum=lambda left, right: _apply(np.minimum, _smaller, left, right),
    exp=lambda value: _apply(np.exp, scalars.exp, value),
    log=lambda value: _apply(np.log, scalars.log, value),
    log1p=lambda value: _apply(np.log1p, scalars.log1p, value),
    rand=_rand,
)
"""Stands for ``tl`` and for the library of device functions."""
