"""Expected tokens per pass of the target when every draft token is accepted alike."""

from __future__ import annotations

from typing import overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from specverify.theory.validation import checked_gamma, checked_probability

__all__ = ["expected_accepted_tokens"]


@overload
def expected_accepted_tokens(alpha: float, gamma: int, *, bonus: bool = ...) -> float: ...
@overload
def expected_accepted_tokens(
    alpha: ArrayLike, gamma: ArrayLike, *, bonus: bool = ...
) -> NDArray[np.float64]: ...
def expected_accepted_tokens(
    alpha: ArrayLike, gamma: ArrayLike, *, bonus: bool = True
) -> float | NDArray[np.float64]:
    """Expected tokens emitted per pass, ``(1 - alpha^(gamma+1)) / (1 - alpha)``.

    The name is the literature's; the correction or bonus token is counted too, so that the value
    lies between 1 and ``gamma + 1``. It is accurate to rounding for every alpha, those next to 1
    included.

    Args:
        alpha: Probability in [0, 1] that a draft token is accepted, the same for all.
        gamma: Draft tokens per pass, at least 1; broadcast against ``alpha``.
        bonus: Whether a fully accepted block earns one more token from the target. Without it the
            exponent is ``gamma``, and the value at alpha = 1 is ``gamma``.

    Returns:
        Tokens per pass: a float for two numbers, else a float64 array of the broadcast shape.

    Raises:
        InvalidInputError: If ``alpha`` is outside [0, 1] or not a number, or ``gamma`` is below 1
            or not an integer.

    References:
        Leviathan et al. (2023), arXiv:2211.17192, equation 1.
    """
    rate = checked_probability("alpha", alpha)
    terms = checked_gamma(gamma) + int(bonus)
    certain = rate == 1
    with np.errstate(divide="ignore"):  # log 0 = -inf, and 1 - exp(-inf) = 1 as it should
        log_rate = np.log(rate)
    # 1 - alpha is exact near 1, and expm1 keeps the digits that 1 - alpha^n would cancel.
    series = -np.expm1(terms * log_rate) / np.where(certain, 1, 1 - rate)
    tokens: NDArray[np.float64] = np.where(certain, terms, series)
    return tokens if tokens.ndim else float(tokens)
