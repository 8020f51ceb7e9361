"""Outcomes as hashable values, and draws that nobody looked at as finite mixtures."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from specverify._arrays import is_torch
from specverify.exact.reals import SymbolicReal
from specverify.exact.tape import refuse
from specverify.exact.tokens import UnreadToken

__all__ = ["Mixture", "as_mixture", "frozen_outcome"]

# A finite law: (outcome, probability) pairs.
Mixture: TypeAlias = list[tuple[Any, float]]


def as_mixture(value: Any) -> Mixture:
    """``value`` as a hashable outcome; a finite law where it holds tokens that were never read.

    Sequences, arrays, tensors and mappings become nested tuples.

    Raises:
        UnsupportedRandomness: If a continuous random value is returned.
    """
    frozen, tokens = frozen_outcome(value)
    if not tokens:
        return [(frozen, 1.0)]
    mixture = []
    for branch in itertools.product(*(token.branches() for token in tokens)):
        known = {id(token): pair[0] for token, pair in zip(tokens, branch, strict=True)}
        weight = 1.0
        for _, prob in branch:
            weight *= prob
        mixture.append((_fill(frozen, known), weight))
    return mixture


def frozen_outcome(value: Any) -> tuple[Any, list[UnreadToken]]:
    """``value`` as nested tuples, with the tokens in it that were never read.

    Raises:
        UnsupportedRandomness: If a continuous random value is returned.
    """
    unread: dict[int, UnreadToken] = {}
    frozen = _freeze(value, unread)
    return frozen, list(unread.values())


_ATOMS = frozenset((int, bool, float, str, type(None)))


def _freeze(value: Any, unread: dict[int, UnreadToken]) -> Any:
    kind = type(value)
    if kind in _ATOMS:
        return value
    if kind is list or kind is tuple:
        return tuple([item if type(item) is int else _freeze(item, unread) for item in value])
    if kind is np.int64:
        return int(value)
    if kind is UnreadToken:
        value.settle_law()
        if value.was_read:
            return value.read()
        unread[id(value)] = value
        return value
    if kind is SymbolicReal:
        refuse("return", "a continuous random value leaves the function")
    if is_torch(value):
        from specverify.exact.torch_shadow import contents

        return _freeze(contents(value).tolist(), unread)
    if isinstance(value, np.ndarray | np.generic):
        return _freeze(value.tolist(), unread)
    if isinstance(value, Mapping):
        return tuple((_freeze(k, unread), _freeze(v, unread)) for k, v in value.items())
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return tuple(_freeze(item, unread) for item in value)
    return value


def _fill(frozen: Any, known: dict[int, Any]) -> Any:
    if type(frozen) is tuple:
        return tuple(_fill(item, known) for item in frozen)
    return known.get(id(frozen), frozen) if type(frozen) is UnreadToken else frozen
