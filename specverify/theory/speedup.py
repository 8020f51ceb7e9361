"""Speedup over plain decoding, in expectation, when every draft token is accepted alike."""

from __future__ import annotations

from typing import overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from specverify.theory.expected_tokens import expected_accepted_tokens
from specverify.theory.validation import checked_cost

__all__ = ["speculative_speedup"]


@overload
def speculative_speedup(
    alpha: float, gamma: int, c: float, *, verify_cost: float = ..., bonus: bool = ...
) -> float: ...
@overload
def speculative_speedup(
    alpha: ArrayLike,
    gamma: ArrayLike,
    c: ArrayLike,
    *,
    verify_cost: ArrayLike = ...,
    bonus: bool = ...,
) -> NDArray[np.float64]: ...
def speculative_speedup(
    alpha: ArrayLike,
    gamma: ArrayLike,
    c: ArrayLike,
    *,
    verify_cost: ArrayLike = 1.0,
    bonus: bool = True,
) -> float | NDArray[np.float64]:
    """Expected tokens per pass over the cost of a pass, ``gamma*c + verify_cost``.

    Costs are in units of one plain decoding step of the target, so that 1 is plain decoding.

    Args:
        alpha: Probability in [0, 1] that a draft token is accepted.
        gamma: Draft tokens per pass, at least 1.
        c: Cost of one draft step, at least 0.
        verify_cost: Cost of the target's pass over a whole block, above 0. It is 1 while reading
            the weights dominates and grows with ``gamma`` and the batch once arithmetic does.
        bonus: Whether a fully accepted block earns one more token.

    Returns:
        Speedup: a float for numbers, else a float64 array of the broadcast shape.

    Raises:
        InvalidInputError: If an argument is outside its range, not finite, or not an integer where
            one is due.

    References:
        Leviathan et al. (2023), arXiv:2211.17192, theorem 3.8.
    """
    step = checked_cost("c", c)
    verify = checked_cost("verify_cost", verify_cost, positive=True)
    tokens = expected_accepted_tokens(alpha, gamma, bonus=bonus)
    speedup = np.asarray(tokens / (np.asarray(gamma) * step + verify), dtype=np.float64)
    return speedup if speedup.ndim else float(speedup)
