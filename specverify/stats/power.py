"""How far a law may be off and still pass: detectable distances, sample sizes, upper bounds.

All rest on one fact: at a law with cell probabilities ``r``, Pearson's statistic against ``p`` is
about noncentral chi-square with noncentrality ``n sum (r - p)^2 / p``, which is at least
``4 n TV(r, p)^2`` whatever the direction of the deviation (Cauchy-Schwarz). So the distances are
guaranteed in the least favourable direction, for deviations that the cells can see.
"""

from __future__ import annotations

import math

import numpy as np

from specverify.errors import InvalidInputError
from specverify.stats._check import check_fraction
from specverify.stats.goodness import GoodnessOfFit
from specverify.stats.intervals import clopper_pearson
from specverify.stats.tails import chi2_isf, noncentrality_at

__all__ = [
    "detectable_tv",
    "multinomial_radius",
    "noncentrality",
    "sample_size",
    "tv_interval",
    "tv_upper_bound",
]


def noncentrality(num_cells: int, level: float, power: float) -> float:
    """Noncentrality at which a chi-square test of ``num_cells`` cells has ``power``.

    Args:
        num_cells: Number of cells, at least 2.
        level: False-alarm probability of the test.
        power: Probability of an alarm, above ``level``.

    Returns:
        The root of ``ncx2.sf(chi2.isf(level, dof), dof, root) = power``.

    Raises:
        InvalidInputError: If an argument is out of range.
    """
    check_fraction("level", level)
    check_fraction("power", power)
    if num_cells < 2:
        raise InvalidInputError("num_cells", f"must be at least 2, got {num_cells}")
    if power <= level:
        raise InvalidInputError("power", f"must exceed the level {level}, got {power}")
    dof = num_cells - 1
    bar = chi2_isf(level, dof)
    return noncentrality_at(1 - power, bar, dof)


def detectable_tv(n: int, num_cells: int, level: float, power: float) -> float:
    """Smallest total variation between cell laws that ``n`` observations find for certain enough.

    Args:
        n: Observations.
        num_cells: Number of cells of the chi-square test.
        level: False-alarm probability of the test.
        power: Probability of finding it.

    Returns:
        ``0.5 sqrt(noncentrality / n)``, at most 1. 1.0 also when there is no observation or one
        cell alone: then no distance is guaranteed to be found.

    Raises:
        InvalidInputError: If an argument is out of range.
    """
    if n < 0:
        raise InvalidInputError("n", f"must not be negative, got {n}")
    needed = noncentrality(max(num_cells, 2), level, power)
    if n == 0 or num_cells < 2:
        return 1.0
    return min(1.0, 0.5 * math.sqrt(needed / n))


def sample_size(tv: float, num_cells: int, level: float, power: float) -> int:
    """Observations after which a total variation of ``tv`` between cell laws is found.

    Args:
        tv: Total variation to be found, in (0, 1].
        num_cells: Number of cells of the chi-square test, at least 2.
        level: False-alarm probability of the test.
        power: Probability of finding it.

    Raises:
        InvalidInputError: If an argument is out of range.
    """
    if not 0 < tv <= 1:
        raise InvalidInputError("tv", f"must lie in (0, 1], got {tv}")
    return math.ceil(noncentrality(num_cells, level, power) / (4 * tv * tv))


def tv_upper_bound(statistic: float, dof: int, n: int, confidence: float = 0.95) -> float:
    """Upper confidence bound of the total variation between the emitted and the expected cells.

    Args:
        statistic: Pearson's statistic of the pooled test.
        dof: Its degrees of freedom.
        n: Observations.
        confidence: Coverage of the bound. For ``m`` bounds that shall hold together, hand in
            ``1 - (1 - confidence) / m``.

    Returns:
        The bound, in [0, 1]. A statistic below its expectation counts as its expectation: a fit
        that is better than chance allows says nothing about the distance. 1 without observations
        or cells.

    Raises:
        InvalidInputError: If an argument is out of range.
    """
    check_fraction("confidence", confidence)
    if statistic < 0 or not math.isfinite(statistic):
        raise InvalidInputError("statistic", f"must be finite and not negative, got {statistic}")
    if n <= 0 or dof <= 0:
        return 1.0
    seen = max(statistic, float(dof))
    bound = noncentrality_at(1 - confidence, seen, dof)
    return min(1.0, 0.5 * math.sqrt(bound / n))


def multinomial_radius(n: int, num_cells: int, confidence: float = 0.95) -> float:
    """Total variation between the observed and the true cell shares, bounded at every ``n``.

    ``0.5 sqrt((cells - 1) / n) + sqrt(log(1 / (1 - confidence)) / (2 n))``: no asymptotics, hence
    wider than ``tv_upper_bound``, and valid for all subsets of cells at once.

    Args:
        n: Observations.
        num_cells: Number of cells.
        confidence: Probability that the bound holds.

    Returns:
        The bound, at most 1.

    References:
        Mean by Jensen and Cauchy-Schwarz, spread by McDiarmid (1989), lemma 1.2: one observation
        moves the distance by at most ``1 / n``.
    """
    check_fraction("confidence", confidence)
    if n <= 0:
        return 1.0
    spread = math.sqrt(-math.log1p(-confidence) / (2 * n))
    return min(1.0, 0.5 * math.sqrt(max(num_cells - 1, 0) / n) + spread)


def tv_interval(fit: GoodnessOfFit, *, confidence: float = 0.95) -> tuple[float, float, float]:
    """Estimate and two-sided bounds of the total variation between cell laws.

    Args:
        fit: The pooled chi-square test.
        confidence: Coverage of the interval.

    Returns:
        ``(estimate, low, high)``. The estimate is the plug-in one. ``high`` inverts the noncentral
        chi-square; ``low`` is the plug-in less ``multinomial_radius``, since a chi-square distance
        bounds the total variation from one side alone. Impossible tokens add to all three.
    """
    check_fraction("confidence", confidence)
    one_sided = 0.5 * (1 + confidence)
    if fit.n == 0:
        return 0.0, 0.0, 1.0
    high = tv_upper_bound(fit.statistic, fit.dof, fit.n - fit.violations, one_sided)
    low = max(0.0, fit.tv_estimate - multinomial_radius(fit.n, fit.cells + 1, one_sided))
    if fit.violations:
        high += clopper_pearson(fit.violations, fit.n, confidence=confidence)[1]
    return fit.tv_estimate, low, float(np.clip(high, fit.tv_estimate, 1.0))
