"""Totals of many independent rounds without drawing the rounds one by one."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from specverify.theory.validation import checked_count, checked_pmf

__all__ = ["length_counts", "stopped_runs"]


def length_counts(
    length_pmf: ArrayLike, rounds: int, generator: np.random.Generator
) -> NDArray[np.int64]:
    """How many of ``rounds`` independent blocks emit 1, 2, ... tokens: one multinomial draw.

    The cost does not depend on the number of rounds.

    Args:
        length_pmf: Probabilities of 1, 2, ... tokens in a block, shape ``(longest,)``; see
            ``emitted_length_pmf``.
        rounds: Blocks, at least 0.
        generator: Source of randomness.

    Returns:
        Counts, shape ``(longest,)``; they sum to ``rounds``.

    Raises:
        InvalidInputError: If ``length_pmf`` is not a probability vector or ``rounds`` is negative.
    """
    pmf = checked_pmf("length_pmf", length_pmf)
    return generator.multinomial(checked_count("rounds", rounds, least=0), pmf)


def stopped_runs(
    length_pmf: ArrayLike, total_tokens: int, runs: int, generator: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Independent runs that stop with the first round that reaches ``total_tokens``.

    While ``n`` rounds of the longest kind cannot pass the goal, ``n`` rounds are drawn at once by
    one multinomial: what is left shrinks geometrically, and no run is cut short or runs over by
    it. The law is that of ``stopped_decode_law``, exactly.

    Args:
        length_pmf: Probabilities of 1, 2, ... tokens in a round, shape ``(longest,)``.
        total_tokens: The goal, at least 1.
        runs: Runs, at least 1.
        generator: Source of randomness.

    Returns:
        Tokens, the whole last round counted, and rounds, both of shape ``(runs,)``.

    Raises:
        InvalidInputError: If ``length_pmf`` is not a probability vector, or a number is below 1.
    """
    pmf = checked_pmf("length_pmf", length_pmf)
    checked_count("total_tokens", total_tokens)
    checked_count("runs", runs)
    lengths = np.arange(1, len(pmf) + 1)
    tokens = np.zeros(runs, dtype=np.int64)
    rounds = np.zeros(runs, dtype=np.int64)
    while (going := np.flatnonzero(tokens < total_tokens)).size:
        safe = np.maximum((total_tokens - tokens[going]) // len(pmf), 1)
        tokens[going] += generator.multinomial(safe, pmf) @ lengths
        rounds[going] += safe
    return tokens, rounds
