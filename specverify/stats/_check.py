"""Refusals shared by the statistical functions."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from specverify.distributions import check_distribution
from specverify.errors import InvalidInputError

__all__ = ["Floats", "Ints", "as_counts", "as_probs", "check_fraction", "check_rng"]

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]

_ROUNDING, _SINGLE = 1e-12, 1e-4


def as_probs(argument: str, probs: Any) -> Floats:
    """``probs`` as float64, refused unless its rows are distributions."""
    values: Floats = np.asarray(probs, dtype=np.float64)
    total = values.sum(axis=-1, keepdims=True) if values.ndim else values
    off = np.abs(total - 1)
    # Rows may have been computed in float32 and cast: that much slack, then exact ones. Two passes
    # say that all is well (NaN says it is not); the full check finds the words for what is wrong.
    if values.size == 0 or not (np.all(off <= _SINGLE) and values.min() >= 0):
        check_distribution(argument, values, tolerance=_SINGLE)
    # Rows that are right to rounding stay bit for bit: equal entries of two laws remain equal.
    if np.all(off <= _ROUNDING):
        return values
    law: Floats = values / total
    return law


def as_counts(argument: str, counts: Any, size: int) -> Ints:
    """``counts`` as int64, refused unless there are ``size`` of them, whole and not negative."""
    values = np.asarray(counts)
    if values.shape != (size,):
        raise InvalidInputError(argument, f"needs shape ({size},), got {values.shape}")
    if values.dtype.kind not in "iub" and not np.all(np.isfinite(values)):
        raise InvalidInputError(argument, "has NaN or infinite entries")
    whole = values.astype(np.int64, copy=False)
    if whole is not values and not np.array_equal(whole, values):
        raise InvalidInputError(argument, "has entries that are no whole numbers")
    if size and whole.min() < 0:
        raise InvalidInputError(argument, f"has a negative entry, {whole.min()}")
    return whole


def check_fraction(argument: str, value: float) -> None:
    """Refuse what does not lie strictly between 0 and 1."""
    if not 0 < value < 1:
        raise InvalidInputError(argument, f"must lie strictly between 0 and 1, got {value}")


def check_rng(rng: object) -> None:
    """Refuse anything but an explicit ``numpy.random.Generator``."""
    if not isinstance(rng, np.random.Generator):
        raise InvalidInputError("rng", f"needs a numpy.random.Generator, got {type(rng).__name__}")
