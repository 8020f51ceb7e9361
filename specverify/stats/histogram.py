"""Bets on the histogram of a quantity that is uniform on [0, 1] under the law."""

from __future__ import annotations

import numpy as np

from specverify.stats._check import Floats
from specverify.stats.bets import tempered

__all__ = ["HistogramBets"]

_CONCENTRATIONS = np.array([1.0, 10.0, 100.0])


class HistogramBets:
    """Dirichlet bets on equal bins, one for each concentration a bin (1, 10, 100).

    An observation is an interval that the law gives a mass of its length, such as a token's
    probability integral transform. The bet pays the predicted density averaged over it, whose mean
    under the law is one; then each bin learns the share of the interval that lies in it.

    Args:
        bins: Number of bins.
        tolerance: Total variation from the law that is forgiven.
    """

    def __init__(self, bins: int, *, tolerance: float = 0.0) -> None:
        self.counts: Floats = np.zeros(bins)
        self._tolerance = tolerance

    @property
    def size(self) -> int:
        """Number of bets."""
        return len(_CONCENTRATIONS)

    def update(self, intervals: Floats) -> Floats:
        """Bet on more observations, in order.

        Args:
            intervals: Lower and upper ends, shape ``(n, 2)``, of positive length.

        Returns:
            Logarithms of the factors, shape ``(n, bets)``.
        """
        bins = len(self.counts)
        parts = _overlaps(intervals, bins)
        after = self.counts + np.cumsum(parts, axis=0)
        before = after - parts
        n_before = self.counts.sum() + np.arange(len(parts))
        weight = bins * _CONCENTRATIONS
        total = n_before[:, None] + weight
        factors = (bins * np.sum(parts * before, axis=1)[:, None] + weight) / total
        if self._tolerance:
            low = (bins * before.min(axis=1)[:, None] + weight) / total
            high = (bins * before.max(axis=1)[:, None] + weight) / total
            factors = tempered(factors, low, high, cap=np.inf, tolerance=self._tolerance)
        if len(parts):
            self.counts = after[-1]
        log_factors: Floats = np.log(factors)
        return log_factors


def _overlaps(intervals: Floats, bins: int) -> Floats:
    """Share of each interval that lies in each bin, shape ``(n, bins)``; rows sum to one."""
    edges = np.arange(bins + 1) / bins
    low, high = intervals[:, :1], intervals[:, 1:]
    inside = np.minimum(high, edges[1:]) - np.maximum(low, edges[:-1])
    parts = np.clip(inside, 0.0, None)
    # Rounding may push an interval past one; what is left of it counts as the last bin.
    parts[:, -1] += np.where(parts.sum(axis=1) > 0, 0.0, 1.0)
    shares: Floats = parts / parts.sum(axis=1, keepdims=True)
    return shares
