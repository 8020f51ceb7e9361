"""Confidence intervals of rates: exact for independent trials, clustered where prompts differ."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from specverify.errors import InvalidInputError
from specverify.stats._check import Floats, check_fraction
from specverify.stats.tails import beta_isf, beta_ppf, student_isf

__all__ = ["clopper_pearson", "clustered_interval"]


def clopper_pearson(
    successes: int, trials: int, *, confidence: float = 0.95
) -> tuple[float, float]:
    """Exact two-sided interval of a binomial probability.

    Args:
        successes: Number of successes.
        trials: Number of independent trials; 0 gives (0, 1).
        confidence: Coverage, at least.

    Returns:
        ``(low, high)``.

    Raises:
        InvalidInputError: If ``successes`` does not lie in ``[0, trials]``.

    References:
        Clopper and Pearson (1934), Biometrika 26(4).
    """
    check_fraction("confidence", confidence)
    if not 0 <= successes <= trials:
        raise InvalidInputError("successes", f"must lie in [0, {trials}], got {successes}")
    tail = (1 - confidence) / 2
    failures = trials - successes
    low = 0.0 if successes == 0 else beta_ppf(tail, successes, failures + 1)
    high = 1.0 if failures == 0 else beta_isf(tail, successes + 1, failures)
    return low, high


def clustered_interval(
    numerators: Sequence[float] | Floats,
    denominators: Sequence[float] | Floats,
    *,
    confidence: float = 0.95,
) -> tuple[float, float, float]:
    """Ratio of sums with an interval that lets every cluster have a rate of its own.

    Where acceptance varies by prompt, the binomial interval of pooled trials covers less than half
    of what it says; this one takes the spread between prompts from the data.

    Args:
        numerators: Accepted (or emitted) tokens of each prompt, shape ``(prompts,)``.
        denominators: Tested positions (or passes) of each prompt, same shape.
        confidence: Coverage for many prompts.

    Returns:
        ``(estimate, low, high)``; with fewer than two prompts the bounds are infinite, and
        without a denominator the estimate is NaN.

    Raises:
        InvalidInputError: If the shapes differ or a denominator is negative.

    References:
        Cochran (1977), Sampling Techniques, section 6.3 (linearised ratio estimator).
    """
    check_fraction("confidence", confidence)
    above = np.asarray(numerators, dtype=np.float64)
    below = np.asarray(denominators, dtype=np.float64)
    if above.shape != below.shape or above.ndim != 1:
        raise InvalidInputError("denominators", f"needs shape {above.shape}, got {below.shape}")
    if np.any(below < 0):
        raise InvalidInputError("denominators", f"has a negative entry, {below.min()}")
    total = float(below.sum())
    if total == 0:
        return math.nan, -math.inf, math.inf
    ratio = float(above.sum()) / total
    clusters = len(below)
    if clusters < 2:
        return ratio, -math.inf, math.inf
    spread = float(np.sum((above - ratio * below) ** 2)) * clusters / (clusters - 1)
    reach = student_isf((1 - confidence) / 2, clusters - 1) * math.sqrt(spread) / total
    return ratio, ratio - reach, ratio + reach
