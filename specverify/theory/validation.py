"""Refusal of bad arguments, by name and value, shared by the closed forms."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from specverify.errors import InvalidInputError

__all__ = [
    "checked_cost",
    "checked_count",
    "checked_gamma",
    "checked_pmf",
    "checked_probability",
]


def checked_probability(argument: str, values: ArrayLike) -> NDArray[np.float64]:
    """``values`` as float64, every one in [0, 1]."""
    array = np.asarray(values, dtype=np.float64)
    _refuse(argument, array, ~((array >= 0) & (array <= 1)), "must lie in [0, 1]")
    return array


def checked_gamma(gamma: ArrayLike) -> NDArray[np.int64]:
    """Draft lengths as integers, every one at least 1."""
    array = np.asarray(gamma)
    if array.dtype.kind not in "iu":
        raise InvalidInputError("gamma", f"must be an integer, got {gamma!r}")
    _refuse("gamma", array, array < 1, "must be at least 1")
    return array.astype(np.int64)


def checked_cost(
    argument: str, values: ArrayLike, *, positive: bool = False
) -> NDArray[np.float64]:
    """Costs or times as float64: finite, at least 0, or above 0 when ``positive``."""
    array = np.asarray(values, dtype=np.float64)
    least = "above 0" if positive else "at least 0"
    low = array <= 0 if positive else array < 0
    _refuse(argument, array, low | ~np.isfinite(array), f"must be finite and {least}")
    return array


def checked_count(argument: str, value: Any, *, least: int = 1) -> int:
    """One integer, at least ``least``."""
    try:
        count = operator.index(value)
    except TypeError:
        raise InvalidInputError(argument, f"must be an integer, got {value!r}") from None
    if isinstance(value, bool) or count < least:
        raise InvalidInputError(argument, f"must be at least {least}, got {value}")
    return count


def checked_pmf(argument: str, pmf: ArrayLike) -> NDArray[np.float64]:
    """Non-negative numbers, shape ``(n,)``, that sum to one within 1e-9."""
    array = checked_probability(argument, pmf)
    if array.ndim != 1 or array.size == 0:
        raise InvalidInputError(argument, f"must be one non-empty row, got shape {array.shape}")
    if abs(array.sum() - 1) > 1e-9:
        raise InvalidInputError(argument, f"must sum to one, got {array.sum():.12g}")
    return array


def _refuse(argument: str, array: NDArray[Any], bad: NDArray[np.bool_], rule: str) -> None:
    if np.any(bad):
        raise InvalidInputError(argument, f"{rule}, got {array[bad].flat[0]}")
