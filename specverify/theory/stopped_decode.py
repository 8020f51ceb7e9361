"""Exact law of a decode that stops once it has N tokens or more.

Tokens per round of such a run is a ratio of two random numbers that stop each other: its mean is
not the mean of a block's length. The law is found by dynamic programming over rounds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from specverify.theory.validation import checked_cost, checked_count, checked_pmf

__all__ = ["Moments", "StoppedDecodeLaw", "stopped_decode_law"]


class Moments(NamedTuple):
    """Mean and standard deviation of one run's quantity."""

    mean: float
    sd: float


@dataclass(frozen=True)
class StoppedDecodeLaw:
    """Joint law of rounds and tokens of one run.

    Attributes:
        total_tokens: The N at which a run stops.
        joint: Probabilities, shape ``(rounds + 1, overshoots)``: entry ``[r, k]`` is that of ``r``
            rounds and ``total_tokens + k`` tokens, the whole last round counted.
    """

    total_tokens: int
    joint: NDArray[np.float64]

    @property
    def rounds_pmf(self) -> NDArray[np.float64]:
        """Probability of 0, 1, 2, ... rounds."""
        pmf: NDArray[np.float64] = self.joint.sum(axis=1)
        return pmf

    @property
    def tokens(self) -> NDArray[np.int64]:
        """Tokens that the columns of ``joint`` stand for."""
        return self.total_tokens + np.arange(self.joint.shape[1])

    def rounds(self) -> Moments:
        """Rounds of a run."""
        return self._moments(np.broadcast_to(self._round_numbers(), self.joint.shape))

    def tokens_per_round(self, *, whole_last_round: bool = True) -> Moments:
        """Tokens over rounds of a run.

        Args:
            whole_last_round: Count what the last round emits past N. It biases the ratio upward;
                cutting at N biases it downward.
        """
        tokens = (
            self.tokens if whole_last_round else np.full(self.joint.shape[1], self.total_tokens)
        )
        return self._moments(tokens / self._round_numbers())

    def speedup(self, *, num_draft: int, draft_time: float, target_time: float) -> Moments:
        """Time of ``total_tokens`` plain steps over the time of the run's rounds.

        Args:
            num_draft: Draft tokens per round.
            draft_time: Time of one draft step, at least 0, in any unit.
            target_time: Time of one target pass, above 0, in the same unit.

        Raises:
            InvalidInputError: If an argument is out of range.
        """
        checked_count("num_draft", num_draft)
        checked_cost("draft_time", draft_time)
        checked_cost("target_time", target_time, positive=True)
        times = self._round_numbers() * (num_draft * draft_time + target_time)
        ratio = self.total_tokens * target_time / times
        return self._moments(np.broadcast_to(ratio, self.joint.shape))

    def _round_numbers(self) -> NDArray[np.float64]:
        # Row 0 is impossible; its ratio is finite so that 0 * inf cannot arise.
        return np.maximum(np.arange(len(self.joint), dtype=np.float64), 1)[:, None]

    def _moments(self, values: NDArray[np.float64]) -> Moments:
        mean = float(np.sum(self.joint * values))
        return Moments(mean, float(np.sqrt(np.sum(self.joint * (values - mean) ** 2))))


def stopped_decode_law(length_pmf: ArrayLike, total_tokens: int) -> StoppedDecodeLaw:
    """Law of rounds and tokens when blocks are drawn until ``total_tokens`` are out.

    The cost is of the order ``total_tokens^2`` times the longest block.

    Args:
        length_pmf: Probabilities of 1, 2, ... tokens in a round, the same for each round,
            independent, shape ``(longest,)``; see ``emitted_length_pmf``.
        total_tokens: The run stops with the first round that reaches it, at least 1.

    Returns:
        The joint law, the whole last round counted.

    Raises:
        InvalidInputError: If ``length_pmf`` is not a probability vector or ``total_tokens`` is
            below 1.
    """
    pmf = checked_pmf("length_pmf", length_pmf)
    wanted = checked_count("total_tokens", total_tokens)
    running = np.zeros(wanted)  # probability of each total below the goal
    running[0] = 1.0
    joint = [np.zeros(len(pmf))]
    while running.any():
        after = np.convolve(running, np.concatenate([[0.0], pmf]))
        running = after[:wanted].copy()
        joint.append(after[wanted:])
    return StoppedDecodeLaw(wanted, np.array(joint))
