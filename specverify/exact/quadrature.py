"""Probability that each of several independent random keys is the largest, by integration.

Tanh-sinh quadrature between the points where any key enters or leaves its support: exponential
convergence also at the singular ends of logarithms.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np

from specverify.exact.forms import Form, forward, increasing, inverse
from specverify.exact.reals import SymbolicReal
from specverify.exact.tape import refuse

__all__ = ["largest_probabilities"]

_STEPS = np.arange(-84, 85) * 0.045
_TAIL = np.exp(-np.pi * np.sinh(_STEPS))
_NODES = 1 / (1 + _TAIL)
_WEIGHTS = np.pi * np.cosh(_STEPS) * _TAIL / (1 + _TAIL) ** 2
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()
_CONVERGED = 1e-9

# A key: its form and the interval of the uniform under it.
_Key: TypeAlias = tuple[Form, float, float]


def largest_probabilities(
    racers: Sequence[SymbolicReal], bar: float
) -> tuple[tuple[float, ...], float]:
    """Probabilities that each racer is the largest, and the mass that may be misplaced.

    Args:
        racers: Independent symbolic reals.
        bar: A constant that competes too; its probability comes last. ``-inf`` for none.

    Raises:
        UnsupportedRandomness: If the integral does not converge.
    """
    keys = tuple((racer.form, *racer.interval()) for racer in racers)
    raw = _integrate(keys, bar)
    total = sum(raw)
    if abs(total - 1.0) > _CONVERGED:
        refuse("argmax", f"numerical integration did not converge, sum {total!r}")
    return tuple(value / total for value in raw), abs(total - 1.0)


@lru_cache(maxsize=4096)
def _integrate(keys: tuple[_Key, ...], bar: float) -> tuple[float, ...]:
    ends = [float(y) for form, low, high in keys for y in forward(form, np.array([low, high]))]
    edges = np.array([y for y in [*ends, bar] if np.isfinite(y)])
    raw = [_one_wins(keys, index, edges, bar) for index in range(len(keys))]
    if bar > -np.inf:
        raw.append(float(np.prod([_below(key, np.array(bar)) for key in keys])))
    return tuple(raw)


def _one_wins(keys: tuple[_Key, ...], index: int, edges: Any, bar: float) -> float:
    form, low, high = keys[index]
    inner = [float(v) for v in np.atleast_1d(inverse(form, edges)) if low < v < high]
    total = 0.0
    for left, right in pairwise(sorted({low, high, *inner})):
        values = forward(form, left + (right - left) * _NODES)
        beaten = np.ones_like(values)
        for other, key in enumerate(keys):
            if other != index:
                beaten = beaten * _below(key, values)
        beaten = np.where(np.isnan(beaten) | (values <= bar), 0.0, beaten)
        total += float(beaten @ _WEIGHTS) * (right - left)
    return total / (high - low)


def _below(key: _Key, values: Any) -> Any:
    """Probability that a key is under each of ``values``."""
    form, low, high = key
    v = np.clip(inverse(form, values), low, high)
    return ((v - low) if increasing(form) else (high - v)) / (high - low)
