"""The draft length that maximises the expected speedup: an exact integer argmax."""

from __future__ import annotations

from fractions import Fraction
from typing import overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from specverify.errors import InvalidInputError
from specverify.theory.expected_tokens import expected_accepted_tokens
from specverify.theory.validation import checked_cost, checked_count, checked_probability

__all__ = ["optimal_gamma", "optimal_gamma_of_costs"]

# Far above the rounding of the two products compared, far below any difference that matters.
_DOUBT = 1e-11


@overload
def optimal_gamma(
    alpha: float, c: float, *, max_gamma: int = ..., verify_cost: float = ..., bonus: bool = ...
) -> int: ...
@overload
def optimal_gamma(
    alpha: ArrayLike,
    c: ArrayLike,
    *,
    max_gamma: int = ...,
    verify_cost: ArrayLike = ...,
    bonus: bool = ...,
) -> NDArray[np.int64]: ...
def optimal_gamma(
    alpha: ArrayLike,
    c: ArrayLike,
    *,
    max_gamma: int = 64,
    verify_cost: ArrayLike = 1.0,
    bonus: bool = True,
) -> int | NDArray[np.int64]:
    """Smallest gamma in ``1..max_gamma`` at which ``speculative_speedup`` is largest.

    One more draft token pays while ``alpha^n (gamma c + v) > c E_n``, with ``n = gamma + 1`` terms
    (``gamma`` without bonus) and ``E_n = 1 + alpha + ... + alpha^(n-1)``. The left side minus the
    right never grows with gamma (its step is ``alpha^n (alpha - 1)((gamma + 1)c + v) <= 0``), so
    the first gamma where it does not pay is the smallest maximiser, and bisection finds it. Where
    floats cannot tell the sides apart, fractions do: ties are real ties of the given numbers.

    Args:
        alpha: Probability in [0, 1] that a draft token is accepted.
        c: Cost of a draft step over that of a plain target step, at least 0.
        max_gamma: Largest draft length allowed, at least 1; the optimum at ``c = 0``.
        verify_cost: Cost of the target's pass over a block, above 0, the same for every gamma.
        bonus: Whether a fully accepted block earns one more token.

    Returns:
        Draft lengths: an int for two numbers, else an int64 array of the broadcast shape. The
        speedup there may still be below 1: then plain decoding is best.

    Raises:
        InvalidInputError: If an argument is outside its range or not finite.
    """
    count = checked_count("max_gamma", max_gamma)
    rate, step, verify = np.broadcast_arrays(
        checked_probability("alpha", alpha),
        checked_cost("c", c),
        checked_cost("verify_cost", verify_cost, positive=True),
    )
    low = np.ones(rate.shape, dtype=np.int64)  # the answer lies in [low, high]
    high = np.full(rate.shape, count, dtype=np.int64)
    while np.any(low < high):
        middle = (low + high) // 2
        pays = (low < high) & _one_more_pays(middle, rate, step, verify, bonus=bonus)
        low = np.where(pays, middle + 1, low)
        high = np.where(pays, high, np.minimum(high, middle))
    return low if low.ndim else int(low)


def _one_more_pays(
    gamma: NDArray[np.int64],
    alpha: NDArray[np.float64],
    c: NDArray[np.float64],
    verify_cost: NDArray[np.float64],
    *,
    bonus: bool,
) -> NDArray[np.bool_]:
    gain = alpha ** (gamma + int(bonus)) * (gamma * c + verify_cost)
    loss = c * expected_accepted_tokens(alpha, gamma, bonus=bonus)
    pays = np.asarray(gain > loss)
    for place in np.argwhere(np.abs(gain - loss) <= _DOUBT * (gain + loss)):
        at = tuple(place)
        exact = (Fraction(float(x[at])) for x in (alpha, c, verify_cost))
        pays[at] = _pays_exactly(int(gamma[at]), *exact, bonus=bonus)
    return pays


def _pays_exactly(
    gamma: int, alpha: Fraction, c: Fraction, verify_cost: Fraction, *, bonus: bool
) -> bool:
    terms = gamma + int(bonus)
    series = (1 - alpha**terms) / (1 - alpha) if alpha != 1 else Fraction(terms)
    return alpha**terms * (gamma * c + verify_cost) > c * series


@overload
def optimal_gamma_of_costs(
    alpha: float, c: float, verify_costs: ArrayLike, *, bonus: bool = ...
) -> int: ...
@overload
def optimal_gamma_of_costs(
    alpha: ArrayLike, c: ArrayLike, verify_costs: ArrayLike, *, bonus: bool = ...
) -> NDArray[np.int64]: ...
def optimal_gamma_of_costs(
    alpha: ArrayLike, c: ArrayLike, verify_costs: ArrayLike, *, bonus: bool = True
) -> int | NDArray[np.int64]:
    """Smallest gamma of the largest speedup where the pass costs more, the longer the block.

    Args:
        alpha: Probability in [0, 1] that a draft token is accepted.
        c: Cost of a draft step over that of a plain target step, at least 0.
        verify_costs: Cost of the target's pass over a block of ``gamma`` drafted tokens, for
            ``gamma = 1, 2, ...``, each above 0, shape ``(gammas,)``. Any shape of curve: a step
            where arithmetic begins to bind makes several local maxima, so all are compared.
        bonus: Whether a fully accepted block earns one more token.

    Returns:
        Draft lengths: an int for two numbers, else an int64 array of the broadcast shape of
        ``alpha`` and ``c``. Floats too close to tell apart are compared as fractions.

    Raises:
        InvalidInputError: If an argument is outside its range, not finite or not of that shape.
    """
    verify = checked_cost("verify_costs", verify_costs, positive=True)
    if verify.ndim != 1 or verify.size == 0:
        raise InvalidInputError("verify_costs", f"must be one row, got shape {verify.shape}")
    rate, step = np.broadcast_arrays(checked_probability("alpha", alpha), checked_cost("c", c))
    gammas = np.arange(1, len(verify) + 1)
    tokens = expected_accepted_tokens(rate[..., None], gammas, bonus=bonus)
    speedups = tokens / (gammas * step[..., None] + verify)
    near = speedups >= (1 - _DOUBT) * speedups.max(axis=-1, keepdims=True)
    best: NDArray[np.int64] = np.asarray(near.argmax(axis=-1) + 1, dtype=np.int64)
    for place in np.argwhere(near.sum(axis=-1) > 1):
        at = tuple(place)
        numbers = Fraction(float(rate[at])), Fraction(float(step[at]))
        rivals = [int(gamma) for gamma in gammas[near[at]]]
        exact = [_speedup_exactly(gamma, *numbers, verify, bonus=bonus) for gamma in rivals]
        best[at] = rivals[exact.index(max(exact))]
    return best if best.ndim else int(best)


def _speedup_exactly(
    gamma: int, alpha: Fraction, c: Fraction, verify: NDArray[np.float64], *, bonus: bool
) -> Fraction:
    series = sum((alpha**power for power in range(gamma + int(bonus))), Fraction(0))
    return series / (gamma * c + Fraction(float(verify[gamma - 1])))
