"""Tails and quantiles of the usual laws, from ``scipy.special``.

``scipy.stats`` gives the same numbers, and takes longer to import than an audit's first traces.
"""

from __future__ import annotations

from typing import Any

from scipy import special

__all__ = [
    "beta_isf",
    "beta_ppf",
    "binomial_cdf",
    "chi2_cdf",
    "chi2_isf",
    "chi2_sf",
    "noncentral_chi2_cdf",
    "noncentrality_at",
    "normal_isf",
    "normal_sf",
    "student_isf",
]


def chi2_cdf(value: float, dof: float) -> float:
    """Probability that a chi-square is at most ``value``."""
    return float(special.chdtr(dof, value))


def chi2_sf(value: float, dof: float) -> float:
    """Probability that a chi-square exceeds ``value``."""
    return float(special.chdtrc(dof, value))


def chi2_isf(tail: float, dof: float) -> float:
    """The value that a chi-square exceeds with probability ``tail``."""
    return float(special.chdtri(dof, tail))


def noncentral_chi2_cdf(value: float, dof: float, noncentrality: float) -> float:
    """Probability that a noncentral chi-square is at most ``value``."""
    return float(special.chndtr(value, dof, noncentrality))


def noncentrality_at(mass: float, value: float, dof: float) -> float:
    """The noncentrality at which a chi-square is at most ``value`` with probability ``mass``.

    0 where even the central one is so rarely below it.
    """
    if noncentral_chi2_cdf(value, dof, 0.0) <= mass:
        return 0.0
    return float(special.chndtrinc(value, dof, mass))


def normal_sf(value: float) -> float:
    """Probability that a standard normal exceeds ``value``."""
    return float(special.ndtr(-value))


def normal_isf(tail: float) -> float:
    """The value that a standard normal exceeds with probability ``tail``."""
    return -float(special.ndtri(tail))


def student_isf(tail: float, dof: float) -> float:
    """The value that Student's t exceeds with probability ``tail``."""
    return -float(special.stdtrit(dof, tail))


def beta_ppf(mass: float, a: float, b: float) -> float:
    """The value below which a beta law has ``mass``."""
    return float(special.betaincinv(a, b, mass))


def beta_isf(tail: float, a: float, b: float) -> float:
    """The value that a beta law exceeds with probability ``tail``."""
    return float(special.betainccinv(a, b, tail))


def binomial_cdf(successes: Any, trials: int, probability: Any) -> Any:
    """Probability of at most so many successes; arrays broadcast."""
    return special.bdtr(successes, trials, probability)
