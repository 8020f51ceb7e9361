"""How much counts speak against the laws that they should follow, at any sample size.

The audit fails an implementation at levels such as 1e-8, where a chi-square's tail is wrong by
orders of magnitude: a cell with expectation 10 reaches 34 with probability 6e-9, and its square
alone reads 1e-14. The decision therefore rests on a bound without asymptotics; the chi-square is
reported beside it, and bounds the distance from above at 95 %, where it is right.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray
from scipy import special

from specverify.results import Interval
from specverify.stats.intervals import clopper_pearson
from specverify.stats.power import tv_upper_bound
from specverify.stats.tails import chi2_cdf, chi2_sf, noncentrality_at, normal_isf

__all__ = [
    "Evidence",
    "Stratum",
    "detectable_tv",
    "entropy_p_value",
    "entropy_threshold",
    "fit_p_value",
    "fit_statistic",
    "point_mass_tv",
    "relative_entropy",
    "tolerant_detectable_tv",
    "tolerant_p_value",
    "weigh",
]

Floats = NDArray[np.float64]
_LARGE = 1e4
_REFUTED = 1e-6


@dataclass(frozen=True, eq=False)
class Stratum:
    """Counts of cells whose probabilities are known.

    Attributes:
        counts: Observations in each cell.
        probs: Probability of each cell; sums to one.
    """

    counts: NDArray[np.int64]
    probs: Floats

    @property
    def n(self) -> int:
        """Number of observations."""
        return int(self.counts.sum())


@dataclass(frozen=True, kw_only=True, eq=False)
class Evidence:
    """What some strata say together.

    Attributes:
        n: Observations.
        dof: Degrees of freedom, cells less one, summed.
        entropy: Relative entropy times observations, nats, summed over strata.
        chi_square: Pearson's statistic, summed over strata.
        chi_square_p: Its asymptotic p-value.
        p_value: Bound on the p-value of the relative entropy, valid at every sample size.
        strata: The strata.
        confidence: Coverage of each side's bound on the total variation.
    """

    n: int
    dof: int
    entropy: float
    chi_square: float
    chi_square_p: float
    p_value: float
    strata: Sequence[Stratum]
    confidence: float

    @cached_property
    def tv(self) -> Interval:
        """Mean total variation over cells, with its bounds; empty where nothing was seen."""
        if not self.n:
            return Interval()
        found = _total_variation(self.strata, self.chi_square, self.confidence)
        # The chi-square's bound is tight near the law alone; far from it the counts' own distance
        # bounds better (a lossy scheme that declares how far off it is needs that).
        if self.p_value > _REFUTED or found.high is None:
            return found
        return replace(found, high=min(found.high, _direct_bound(self.strata, self.confidence)))


def weigh(strata: Sequence[Stratum], *, confidence: float = 0.95) -> Evidence:
    """Evidence of independent (or sequentially drawn) strata against their laws.

    Args:
        strata: Counts and laws; strata without observations count for nothing.
        confidence: Coverage of each side's bound on the total variation.

    Returns:
        The evidence; ``p_value`` 1 where there is nothing to see.
    """
    used = [stratum for stratum in strata if stratum.n and len(stratum.probs) > 1]
    dof = sum(len(stratum.probs) - 1 for stratum in used)
    statistic = sum(_pearson(stratum) for stratum in used)
    entropy = relative_entropy(used)
    return Evidence(
        n=sum(stratum.n for stratum in used),
        dof=dof,
        entropy=entropy,
        chi_square=statistic,
        chi_square_p=chi2_sf(statistic, dof) if dof else 1.0,
        p_value=entropy_p_value(entropy, dof),
        strata=used,
        confidence=confidence,
    )


def relative_entropy(strata: Sequence[Stratum]) -> float:
    """``sum n KL(counts/n, law)`` over strata, nats."""
    return sum(
        float(s.n * np.sum(special.rel_entr(s.counts / s.n, s.probs))) for s in strata if s.n
    )


def entropy_p_value(entropy: float, dof: int) -> float:
    """Bound on the probability that ``sum n KL(counts/n, law)`` reaches ``entropy``.

    The moment generating function of ``n KL`` is at most that of a Gamma variable with shape
    ``cells - 1``; Chernoff's bound of the sum follows. It needs no minimal expectation, and holds
    for strata whose sizes depend on the strata before (a Markov chain's contexts).

    Args:
        entropy: Observed sum, nats.
        dof: Cells less one, summed over strata.

    Returns:
        A valid p-value in [0, 1].

    References:
        Agrawal (2020), Finite-sample concentration of the multinomial in relative entropy, IEEE
        Transactions on Information Theory 66(10), theorem 1.2.
    """
    if math.isinf(entropy):
        return 0.0  # a cell without probability was seen; the terms below would cancel to NaN
    if entropy <= dof or dof == 0:
        return 1.0
    return math.exp(-entropy + dof + dof * math.log(entropy / dof))


def fit_statistic(strata: Sequence[Stratum]) -> tuple[float, int]:
    """Chi-square of counts that may fit too well, and its degrees of freedom.

    Half a count is added to every gap: the chi-square of counts spread over their unit cells is
    continuous, and this is its largest value, so that exact hits do not look too rare.

    Args:
        strata: Counts and laws.
    """
    used = [s for s in strata if s.n and len(s.probs) > 1]
    widest = 0.0
    for s in used:
        expected = np.maximum(s.n * s.probs, 1e-300)
        widest += float(np.sum((np.abs(s.counts - expected) + 0.5) ** 2 / expected))
    return widest, sum(len(s.probs) - 1 for s in used)


def fit_p_value(statistic: float, dof: int) -> float:
    """How rarely honest draws fit their laws this well: the lower tail; 1 without freedom."""
    return chi2_cdf(statistic, dof) if dof else 1.0


def tolerant_p_value(stratum: Stratum, tolerance: float, *, sharing: int = 1) -> float:
    """Bound on the p-value of "every draw's law lies within ``tolerance`` of its own".

    Draws may depend on those before. Couple each with one that follows the cells' law and is
    independent of the past: they differ with probability ``tolerance`` at most. The coupled ones
    lie ``sqrt(cells / n) / 2`` from their law on average; half of the slack is left to them
    (bounded differences) and half to the number of draws that differ.

    Args:
        stratum: Counts and the cells' law.
        tolerance: Total variation that is forgiven.
        sharing: Observations that one draw takes part in: 2 for pairs of neighbours.

    Returns:
        A valid p-value in (0, 1].

    References:
        McDiarmid (1989), On the method of bounded differences.
    """
    n = stratum.n
    if not n:
        return 1.0
    distance = 0.5 * float(np.abs(stratum.counts / n - stratum.probs).sum())
    slack = distance - tolerance - 0.5 * math.sqrt(sharing * len(stratum.probs) / n)
    return min(1.0, 2 * math.exp(-n * max(0.0, slack) ** 2 / (2 * sharing)))


def tolerant_detectable_tv(
    n: int, cells: int, level: float, *, tolerance: float, sharing: int = 1, power: float = 0.9
) -> float:
    """Distance at which :func:`tolerant_p_value` reaches ``level`` with probability ``power``.

    Args:
        n: Observations.
        cells: Cells of the law.
        level: Level of the test.
        tolerance: Total variation that is forgiven.
        sharing: Observations that one draw takes part in.
        power: Wanted probability; the same inequality bounds what the sample may hide.

    Returns:
        A total variation, at most 1.
    """
    if not n:
        return 1.0
    slack = sum(math.sqrt(2 * sharing * math.log(2 / tail) / n) for tail in (level, 1 - power))
    return min(1.0, tolerance + 0.5 * math.sqrt(sharing * cells / n) + slack)


def entropy_threshold(level: float, dof: int) -> float:
    """Smallest ``entropy`` whose :func:`entropy_p_value` is at most ``level``."""
    ratio = -math.exp(math.log(level) / dof - 1)
    return float(-dof * np.real(special.lambertw(ratio, k=-1)))


def detectable_tv(n: int, dof: int, level: float, *, power: float = 0.9) -> float:
    """Smallest total variation over cells that is found with probability ``power``.

    Args:
        n: Observations.
        dof: Cells less one, summed over strata.
        level: Level of the test.
        power: Wanted probability, in the least favourable direction.

    Returns:
        A total variation, at most 1.
    """
    threshold = 2 * entropy_threshold(level, dof)
    noncentrality = noncentrality_at(1 - power, threshold, dof)
    return min(1.0, 0.5 * math.sqrt(noncentrality / n)) if n else 1.0


def point_mass_tv(wrong: int, n: int, *, confidence: float) -> Interval:
    """Total variation from a law with one outcome: the probability of any other.

    Args:
        wrong: Observations of other outcomes.
        n: Observations.
        confidence: Coverage of each side's bound.
    """
    if not n:
        return Interval()
    low, high = clopper_pearson(wrong, n, confidence=2 * confidence - 1)
    return Interval(estimate=wrong / n, low=low, high=high, confidence=confidence)


def _upper_bound(statistic: float, dof: int, n: int, confidence: float) -> float:
    if statistic < _LARGE:
        return tv_upper_bound(statistic, dof, n, confidence)
    # Far out the noncentral chi-square is normal, and its distribution function loses its digits.
    spread = math.sqrt(2 * dof + 4 * statistic)
    noncentrality = statistic - dof + normal_isf(1 - confidence) * spread
    return min(1.0, 0.5 * math.sqrt(noncentrality / n))


def _pearson(stratum: Stratum) -> float:
    expected = stratum.n * stratum.probs
    return float(np.sum((stratum.counts - expected) ** 2 / np.maximum(expected, 1e-300)))


def _total_variation(strata: Sequence[Stratum], statistic: float, confidence: float) -> Interval:
    n = sum(stratum.n for stratum in strata)
    dof = sum(len(stratum.probs) - 1 for stratum in strata)
    distance, noise, slack = 0.0, 0.0, math.sqrt(-math.log(1 - confidence) / (2 * n))
    for stratum in strata:
        gaps = np.abs(stratum.counts / stratum.n - stratum.probs)
        distance += stratum.n / n * 0.5 * float(np.sum(gaps))
        spread = np.sqrt(stratum.probs * (1 - stratum.probs) / stratum.n)
        noise += stratum.n / n * 0.5 * float(np.sum(spread))
    # The noise alone has mean sqrt(2/pi) of its root mean square in each cell.
    return Interval(
        estimate=max(0.0, distance - math.sqrt(2 / math.pi) * noise),
        low=max(0.0, distance - noise - slack),
        # sum n chi2(law', law) >= 4 sum n TV**2 is the statistic's noncentrality, so that this
        # bounds the root mean square over strata, and the mean with it.
        high=_upper_bound(statistic, dof, n, confidence),
        confidence=confidence,
    )


def _direct_bound(strata: Sequence[Stratum], confidence: float) -> float:
    """The counts' distance, the most that counts lie off their own law on average, and a slack.

    The mean distance of ``n`` counts from their law is at most ``sqrt((cells - 1) / n) / 2``,
    whatever the law; one observation moves it by ``1 / n`` at most (McDiarmid's inequality).
    """
    n = sum(s.n for s in strata)
    distance = sum(0.5 * float(np.abs(s.counts - s.n * s.probs).sum()) for s in strata) / n
    noise = sum(0.5 * math.sqrt(s.n * (len(s.probs) - 1)) for s in strata) / n
    return min(1.0, distance + noise + math.sqrt(-math.log(1 - confidence) / (2 * n)))
