"""Bets against a law: each has expectation one under it, so its wealth is evidence against it.

A bet multiplies its wealth by ``f(token) / p(token)``-like factors whose mean under the law is one
given everything before. Then wealth above ``1 / level`` has probability at most ``level`` under
the law, however long and however often somebody looks (Ville's inequality), and a weighted average
of bets is a bet. Everything here works on logarithms: ``log_e = inf`` says that something happened
which the law excludes.

References:
    Ville (1939), Étude critique de la notion de collectif; Shafer (2021), arXiv:1903.06991;
    Ramdas, Grünwald, Vovk and Shafer (2023), arXiv:2210.01948, section 2.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import gammaln

from specverify.stats._check import Floats, Ints

__all__ = [
    "LOG_E_CAP",
    "RESERVE",
    "capped_e_value",
    "dirichlet_log_e",
    "dirichlet_step_log_e",
    "log_mixture",
    "log_wealth",
    "tempered",
]

# e-values are written as ordinary numbers; beyond this power of e they would not be finite.
LOG_E_CAP = 690.0

# What is never bet lowers false alarms in proportion, and costs what a lower level would.
RESERVE = 0.36

# Above this argument Stirling's series is exact to the last bit, and differences do not cancel.
_LARGE = 1e3


def capped_e_value(log_e: float) -> float:
    """The e-value as a finite number for JSON: ``exp(min(log_e, 690))``, about 1e299 at most.

    Impossible events (``log_e = inf``) are written as the cap, and NaN never comes out.
    """
    return math.exp(min(log_e, LOG_E_CAP))


def log_mixture(log_e: Floats, weights: Floats) -> Floats:
    """Logarithm of the weighted average of e-values over the last axis.

    Args:
        log_e: Logarithms, shape ``(..., bets)``; ``inf`` and ``-inf`` allowed.
        weights: Non-negative weights that sum to one, shape ``(bets,)``.

    Without any bet nothing is at stake: 0.
    """
    if log_e.shape[-1] == 0:
        return np.zeros(log_e.shape[:-1])
    top = np.max(log_e, axis=-1, keepdims=True)
    # An infinite best bet is the answer itself; subtracting it would give NaN.
    base = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore", over="ignore"):  # beside infinity a large one may overflow
        values = np.log(np.exp(log_e - base) @ weights) + base[..., 0]
    return np.where(np.isposinf(top[..., 0]), np.inf, values)


def log_wealth(log_e: Floats, weights: Floats) -> Floats:
    """Logarithm of all wealth: of the bets, and of the 36 % that are never bet.

    Args:
        log_e: As in ``log_mixture``.
        weights: As in ``log_mixture``.
    """
    at_stake = log_mixture(log_e, weights) + np.log1p(-RESERVE)
    wealth: Floats = np.logaddexp(at_stake, np.log(RESERVE))
    return wealth


def dirichlet_log_e(
    counts: Floats | Ints, cell_probs: Floats, concentration: float | Floats
) -> Floats:
    """Bet that learns the cells' law as it goes, as a function of the counts alone.

    At each observation it predicts cell ``k`` with ``(count_k + c p_k) / (n + c)``. The product of
    prediction over law telescopes into Dirichlet-multinomial over multinomial, the same in every
    order of the observations, so counts can be merged and evaluated at any time.

    Args:
        counts: Occurrences of each cell, shape ``(..., cells)``.
        cell_probs: Law of the cells, positive, shape ``(cells,)``.
        concentration: ``c``, the weight of the law in units of observations: small learns fast.
            Several bets have theirs along axes of their own, broadcast against ``(...)``.

    Returns:
        ``log_e``, shape ``(...)``.

    References:
        Krichevsky and Trofimov (1981), IEEE Trans. Inf. Theory 27(2); Shafer (2021), section 2.
    """
    seen, weight = np.asarray(counts, dtype=np.float64), np.asarray(concentration)
    gains = _excess(weight[..., None] * cell_probs, seen).sum(axis=-1)
    log_e: Floats = gains - _excess(weight, seen.sum(axis=-1))
    return log_e


def dirichlet_step_log_e(
    earlier: Floats, n_earlier: Floats, cell_probs: Floats, concentration: float | Floats
) -> Floats:
    """One observation's factor of ``dirichlet_log_e``, for paths that are watched at every token.

    Args:
        earlier: Earlier occurrences of the cell that was now seen, shape ``(...)``.
        n_earlier: All earlier observations, same shape.
        cell_probs: Law of that cell, same shape.
        concentration: As in ``dirichlet_log_e``; broadcasts, e.g. along a last axis of bets.
    """
    surplus = earlier / (concentration * cell_probs)
    return np.log1p(surplus) - np.log1p(n_earlier / concentration)


def tempered(
    factors: Floats, lowest: Floats, highest: Floats, *, cap: float, tolerance: float
) -> Floats:
    """Make a bet valid for every law within a total variation of ``tolerance`` of the null.

    Args:
        factors: Factors with mean at most one under the null.
        lowest: Least factor that any token could have brought (broadcasts).
        highest: Largest factor that any token could have brought.
        cap: Factors are clipped here, which only lowers their mean.
        tolerance: Total variation that is forgiven; 0 gives the factors back.

    Returns:
        ``min(factor, cap) / (1 + tolerance (highest - lowest))`` with the clipped extremes: under
        a law ``r`` the mean of ``f`` exceeds the null's by at most ``TV (max f - min f)``.
    """
    if tolerance == 0:
        return factors
    reach = np.minimum(highest, cap) - np.minimum(lowest, cap)
    return np.minimum(factors, cap) / (1 + tolerance * reach)


def _excess(base: Floats, count: Floats) -> Floats:
    """``log Gamma(base + count) - log Gamma(base) - count log(base)``, without cancellation."""
    base, count = np.broadcast_arrays(base, count)
    big = np.maximum(base, _LARGE)
    series = (big + count - 0.5) * np.log1p(count / big) - count
    # Next term of Stirling's series for both logarithms, 1 / 12 (1 / (b + c) - 1 / b).
    series -= count / (12 * big * (big + count))
    small = np.minimum(base, _LARGE)
    direct = gammaln(small + count) - gammaln(small) - count * np.log(small)
    return np.where(base >= _LARGE, series, direct)
