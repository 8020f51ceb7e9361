"""What simulated runs did, and estimates from them that treat the last round rightly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from specverify._arrays import FloatArray, IntArray

__all__ = ["Estimate", "SimulatedRuns"]


class Estimate(NamedTuple):
    """A value and its standard error over independent runs; None from a single run."""

    value: float
    standard_error: float | None


@dataclass(frozen=True)
class SimulatedRuns:
    """Totals of independent runs, one entry a run, every array of shape ``(runs,)``.

    Attributes:
        delivered: Tokens that the caller gets.
        emitted: Tokens that the rounds emitted, the whole last round counted.
        rounds: Passes of the target.
        drafted: Tokens drafted.
        tested: Draft tokens whose accept test was made: the accepted ones and a rejected one a
            round; those behind a rejection are not tested.
        accepted: Draft tokens accepted.
        speculative_time: Time of the rounds and the prefill.
        plain_time: Time of plain decoding of the delivered tokens, prefill included.
    """

    delivered: IntArray
    emitted: IntArray
    rounds: IntArray
    drafted: IntArray
    tested: IntArray
    accepted: IntArray
    speculative_time: FloatArray
    plain_time: FloatArray

    def tokens_per_pass(self) -> Estimate:
        """All emitted tokens over all rounds.

        The mean of each run's ratio would be biased by where the last round happens to end; the
        ratio of sums, whole last rounds counted, is not (Wald's identity).
        """
        return _ratio(self.emitted, self.rounds)

    def acceptance(self) -> Estimate:
        """Accepted over tested tokens: the alpha of theory."""
        return _ratio(self.accepted, self.tested)

    def accepted_over_drafted(self) -> Estimate:
        """Accepted over drafted tokens, as engines report it: below alpha, for gamma above 1."""
        return _ratio(self.accepted, self.drafted)

    def speedup(self) -> Estimate:
        """All plain time over all speculative time, for the same delivered tokens."""
        return _ratio(self.plain_time, self.speculative_time)

    def time_quantiles(self, levels: Sequence[float]) -> FloatArray:
        """Quantiles over runs of the time to the last delivered token, one for each level."""
        return np.quantile(self.speculative_time, levels)

    def latency_quantiles(self, levels: Sequence[float]) -> FloatArray:
        """Quantiles over runs of the time per delivered token, one for each level."""
        return np.quantile(self.speculative_time / self.delivered, levels)

    def run_speedup_quantiles(self, levels: Sequence[float]) -> FloatArray:
        """Quantiles over runs of each run's own speedup, one for each level."""
        return np.quantile(self.plain_time / self.speculative_time, levels)


def _ratio(numerators: NDArray[np.generic], denominators: NDArray[np.generic]) -> Estimate:
    """Ratio of sums, with its error by the delta method."""
    y = np.asarray(numerators, dtype=np.float64)
    x = np.asarray(denominators, dtype=np.float64)
    value = float(y.sum() / x.sum())
    runs = len(y)
    if runs < 2:
        return Estimate(value, None)
    scatter = float(np.sum((y - value * x) ** 2) / (runs - 1))
    return Estimate(value, float(np.sqrt(scatter / runs) / x.mean()))
