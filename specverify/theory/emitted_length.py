"""How many tokens one block emits: the exact pmf, alike or unlike from token to token."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from specverify.errors import InvalidInputError
from specverify.theory.validation import checked_gamma, checked_pmf, checked_probability

__all__ = ["emitted_length_moments", "emitted_length_pmf"]


def emitted_length_pmf(
    alphas: ArrayLike,
    gamma: int | None = None,
    *,
    bonus: bool = True,
    weights: ArrayLike | None = None,
) -> NDArray[np.float64]:
    """Law of the number of tokens that one block emits.

    The block ends at the first rejection, whose correction is emitted too; a fully accepted block
    earns a bonus token.

    Args:
        alphas: Acceptance probabilities in [0, 1]. One number: the same at every position, and
            ``gamma`` says how many positions. Shape ``(..., gamma)``: by position, given that all
            before were accepted; leading axes are contexts.
        gamma: Draft tokens per block; needed for one number, else checked against the last axis.
        bonus: Whether a fully accepted block earns one more token. Without it the longest block
            has ``gamma`` tokens.
        weights: Probabilities of the contexts along the first axis of ``alphas``; the mixture over
            that axis is returned. The mixture of blocks is not the block of the mixed alpha: text
            that is now easy, now hard has more short *and* more long blocks.

    Returns:
        Probabilities, shape ``(..., gamma + 1)``, or ``(..., gamma)`` without bonus: entry ``k`` is
        the probability of ``k + 1`` tokens.

    Raises:
        InvalidInputError: If a probability is outside [0, 1], ``gamma`` is missing, below 1 or at
            odds with ``alphas``, or ``weights`` do not fit.

    References:
        Leviathan et al. (2023), arXiv:2211.17192, section 3.1 (equal alphas).
    """
    rates = _by_position(alphas, gamma)
    reached = np.cumprod(rates, axis=-1)
    ones = np.ones_like(rates[..., :1])
    reached = np.concatenate([ones, reached if bonus else reached[..., :-1]], axis=-1)
    stop = np.concatenate([1 - (rates if bonus else rates[..., :-1]), ones], axis=-1)
    return _mixed(reached * stop, weights)


def emitted_length_moments(pmf: ArrayLike) -> tuple[float, float]:
    """Mean and variance of the tokens that one block emits.

    Args:
        pmf: Probabilities of 1, 2, ... tokens, shape ``(n,)``.

    Returns:
        Mean and variance, in tokens and squared tokens. Both add up over independent blocks, equal
        in law or not, which gives the total's.

    Raises:
        InvalidInputError: If ``pmf`` is not a probability vector.
    """
    weights = checked_pmf("pmf", pmf)
    lengths = np.arange(1, len(weights) + 1)
    mean = float(weights @ lengths)
    return mean, float(weights @ (lengths - mean) ** 2)


def _by_position(alphas: ArrayLike, gamma: int | None) -> NDArray[np.float64]:
    rates = checked_probability("alphas", alphas)
    if gamma is not None:
        checked_gamma(gamma)
    if rates.ndim == 0:
        if gamma is None:
            raise InvalidInputError("gamma", "is needed when alphas is one number, got None")
        return np.full(gamma, float(rates))
    if rates.shape[-1] == 0 or (gamma is not None and rates.shape[-1] != gamma):
        raise InvalidInputError(
            "alphas", f"last axis must hold gamma = {gamma or 'at least 1'}, got {rates.shape}"
        )
    return rates


def _mixed(pmf: NDArray[np.float64], weights: ArrayLike | None) -> NDArray[np.float64]:
    if weights is None:
        return pmf
    mix = checked_pmf("weights", weights)
    if pmf.ndim < 2 or len(mix) != len(pmf):
        raise InvalidInputError(
            "weights", f"need one for each row of alphas, got {len(mix)} for {pmf.shape[:-1]}"
        )
    mixture: NDArray[np.float64] = np.tensordot(mix, pmf, axes=1)
    return mixture
