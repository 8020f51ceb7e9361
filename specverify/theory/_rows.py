"""A user's next-token function as checked, cached float64 rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from specverify._arrays import to_numpy
from specverify.distributions import check_distribution
from specverify.errors import InvalidInputError

__all__ = ["NextProbs", "Rows", "Tokens", "cached_rows", "check_size"]

Tokens: TypeAlias = tuple[int, ...]
NextProbs: TypeAlias = Callable[[Tokens], Any]
Rows: TypeAlias = Callable[[Tokens], NDArray[np.float64]]

_MOST_OUTCOMES = 20_000_000


def cached_rows(
    argument: str, next_probs: NextProbs, prompt: Sequence[int], vocab_size: int
) -> Rows:
    """Rows of ``next_probs`` after ``prompt`` and some new tokens, each asked for once."""
    start = tuple(int(token) for token in prompt)

    @cache
    def row(tokens: Tokens) -> NDArray[np.float64]:
        probs = to_numpy(next_probs(start + tokens)).astype(np.float64)
        if probs.shape != (vocab_size,):
            raise InvalidInputError(
                argument, f"gave shape {probs.shape} after {start + tokens}, not ({vocab_size},)"
            )
        check_distribution(argument, probs)
        return probs

    return row


def check_size(argument: str, vocab_size: int, length: int) -> None:
    """Refuse laws that would not fit in memory."""
    if vocab_size**length > _MOST_OUTCOMES:
        raise InvalidInputError(
            argument,
            f"{vocab_size}^{length} outcomes are too many to enumerate (at most {_MOST_OUTCOMES})",
        )
