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

__all__ = [
    "LANGUAGE",
    "Cells",
    "Largest",
    "PartedError",
    "Pick",
    "Value",
    "boxed",
    "is_random",
    "program",
    "python",
    "raw",
]

Cells = NDArray[Any]

program: list[Any] = [0, 0, 0]
"""Indices of the program that runs, by axis of the grid; arrays of them where many run together."""


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


def is_random(data: Any) -> bool:
    """Whether it is a random value, or an array that holds some."""
    kind = type(data)
    return data.dtype.kind == "O" if kind is np.ndarray else kind in _RANDOM


def raw(operand: Any) -> Any:
    """What a value holds; anything else as it is."""
    return operand.data if type(operand) is Value else operand


def python(data: Any) -> Any:
    """A number of numpy's as one of Python's; anything else as it is."""
    return data.item() if isinstance(data, np.generic) else data


def _apply(plain: Callable[..., Any], symbolic: Callable[..., Any], *operands: Any) -> Value:
    """One elementwise operation: numpy's, or on cells where one is random."""
    values = [raw(operand) for operand in operands]
    if not any(is_random(value) for value in values):
        return Value(plain(*values))
    if not any(isinstance(value, np.ndarray) for value in values):
        found = symbolic(*(python(value) for value in values))
        return Value(np.bool_(found) if type(found) is bool else found)
    cells = np.frompyfunc(symbolic, len(values), 1)(*(boxed(value) for value in values))
    known = all(type(cell) is bool for cell in cells.tolist())
    return Value(cells.astype(np.bool_) if known else cells)


def boxed(value: Any) -> Any:
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
        known = type(left) in _SCALARS or not is_random(left)
        if known and (type(right) in _SCALARS or not is_random(right)):  # mostly
            return Value(plain(left, right))
        return _apply(plain, symbolic, self, other)

    return method, lambda self, other: _apply(plain, symbolic, other, self)


class PartedError(Exception):
    """Programs that run together want to go on in different ways.

    Args:
        wanted: What each of them decides on, shape ``(programs,)``.
    """

    def __init__(self, wanted: Cells) -> None:
        super().__init__("programs part")
        self.wanted = wanted


def common(data: Any) -> Any:
    """What all programs decide on: a number itself, or what an array of them has in common.

    Raises:
        PartedError: If they do not agree.
    """
    if type(data) is not np.ndarray or not data.ndim:
        return data
    wanted = data.reshape(len(data), -1)[:, 0]
    if (wanted != wanted[0]).any():
        raise PartedError(wanted)
    return wanted[0]


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
        return self if is_random(self.data) else Value(self.data.astype(dtype))

    def __bool__(self) -> bool:
        return bool(common(self.data))

    def __index__(self) -> int:
        return operator.index(common(self.data))

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


def _max(value: Value, axis: int = 0, *, return_indices: bool = False) -> Any:
    data = value.data
    if is_random(data):
        keys = data.tolist()
        return (Value(Largest(keys)), Value(Pick(keys))) if return_indices else Value(Largest(keys))
    index = np.int32(data.argmax())
    return (Value(data[index]), Value(index)) if return_indices else Value(data[index])


def _argmax(value: Value, axis: int = 0) -> Value:
    data = value.data
    if not is_random(data):
        return Value(np.int32(data.argmax()))
    return Value(np.int32(0)) if data.size == 1 else Value(Pick(data.tolist()))


def _where(condition: Any, left: Any, right: Any) -> Value:
    chosen, one, other = raw(condition), raw(left), raw(right)
    if isinstance(chosen, np.ndarray):
        return Value(np.where(chosen, boxed(one), boxed(other)))
    picked = one if bool(chosen) else other
    if isinstance(picked, bool | int | float):
        like = other if bool(chosen) else one
        picked = like.dtype.type(picked) if isinstance(like, np.generic) else np.array(picked)[()]
    return Value(picked)


def _smaller(left: Any, right: Any) -> Any:
    return left.at_most(right) if type(left) is Pick else scalars.minimum(left, right)


def _rand(seed: Value, offset: Value) -> Value:
    """Triton's uniform: Philox of 32-bit words, ten rounds, 31 bits of the first word."""
    word: Any = np.uint64(0xFFFFFFFF)
    key, place = (np.asarray(raw(number)).astype(np.uint64)[()] for number in (seed, offset))
    k0, k1 = key & word, key >> 32
    c0, c1, c2, c3 = place & word, place >> 32, word ^ word, word ^ word
    for _ in range(10):
        low, high = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1 = (high >> 32) ^ c1 ^ k0, high & word
        c2, c3 = (low >> 32) ^ c3 ^ k1, low & word
        k0, k1 = (k0 + 0x9E3779B9) & word, (k1 + 0xBB67AE85) & word
    signed = np.where(c0 < 1 << 31, c0, c0 ^ word)[()]
    return Value(signed.astype(np.float32) * np.float32(4.6566127342e-10))


LANGUAGE = SimpleNamespace(
    **{name: getattr(np, name) for name in ("float32", "float64", "int32", "int64")},
    **{name: getattr(np, name) for name in ("uint8", "uint32", "uint64")},
    program_id=lambda axis: Value(np.int32(program[axis])),
    load=lambda pointer, mask=None, other=None: pointer.memory.load(pointer.places, mask, other),
    store=lambda pointer, value, mask=None: pointer.memory.store(pointer.places, value, mask),
    arange=lambda start, end: Value(np.arange(start, end, dtype=np.int32)),
    zeros=lambda shape, dtype: Value(np.zeros(shape, dtype)[()]),
    full=lambda shape, value, dtype: Value(np.full(shape, raw(value), dtype)[()]),
    cast=lambda value, dtype: Value(np.asarray(raw(value)).astype(dtype)[()]),
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
