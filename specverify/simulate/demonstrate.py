"""Document A's curve: speedup over gamma at one cost ratio, with simulated dots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from specverify.theory.expected_tokens import expected_accepted_tokens
from specverify.theory.optimal_gamma import optimal_gamma
from specverify.theory.speedup import speculative_speedup
from specverify.theory.validation import checked_cost, checked_count, checked_probability

__all__ = ["SpeculativeCurve", "demonstrate_speculative"]


@dataclass(frozen=True)
class SpeculativeCurve:
    """Theory and simulation over a grid of acceptance rates (rows) and draft lengths (columns).

    Attributes:
        alphas: Acceptance rates, shape ``(alphas,)``.
        gammas: Draft lengths, shape ``(gammas,)``.
        c: Cost of a draft step over that of a target step.
        rounds: Simulated rounds behind each dot.
        tokens_per_pass: Expected tokens per pass, shape ``(alphas, gammas)``.
        speedup: Expected tokens per pass over the cost of a pass, same shape.
        optimal_gamma: The best draft length of each row within the grid, shape ``(alphas,)``.
        simulated_tokens_per_pass: Mean over the simulated rounds, same shape as the theory.
        simulated_speedup: The same over the cost of a pass.
        tokens_standard_error: Standard error of ``simulated_tokens_per_pass``.
        speedup_standard_error: Standard error of ``simulated_speedup``.
    """

    alphas: NDArray[np.float64]
    gammas: NDArray[np.int64]
    c: float
    rounds: int
    tokens_per_pass: NDArray[np.float64]
    speedup: NDArray[np.float64]
    optimal_gamma: NDArray[np.int64]
    simulated_tokens_per_pass: NDArray[np.float64]
    simulated_speedup: NDArray[np.float64]
    tokens_standard_error: NDArray[np.float64]
    speedup_standard_error: NDArray[np.float64]


def demonstrate_speculative(
    generator: np.random.Generator | None = None,
    *,
    alphas: Sequence[float] = (0.9, 0.8, 0.6, 0.4),
    c: float = 0.1,
    max_gamma: int = 10,
    rounds: int = 10_000,
) -> SpeculativeCurve:
    """Expected tokens per pass and speedup over gamma, each with a simulated dot.

    The dots come from single accept tests, not from the formula that they are compared with. All
    dots of one alpha share their tests: a longer draft extends the shorter ones, which leaves each
    dot exact but makes the errors along a curve move together.

    Args:
        generator: Source of randomness; a fresh, unseeded one if not given.
        alphas: Acceptance rates in [0, 1]: a good draft, a middling one, a weak one.
        c: Cost of a draft step over that of a target step, at least 0.
        max_gamma: Longest draft, at least 1.
        rounds: Simulated rounds per dot, at least 2.

    Returns:
        The curves and their dots.

    Raises:
        InvalidInputError: If an argument is out of range.
    """
    rng = generator if generator is not None else np.random.default_rng()
    rates = np.atleast_1d(checked_probability("alphas", alphas))
    checked_cost("c", c)
    gammas = np.arange(1, checked_count("max_gamma", max_gamma) + 1)
    checked_count("rounds", rounds, least=2)
    lengths = np.array([_lengths(rng, rate, max_gamma, rounds) for rate in rates])
    means = lengths.mean(axis=1)
    errors = lengths.std(axis=1, ddof=1) / np.sqrt(rounds)
    cost = gammas * c + 1
    return SpeculativeCurve(
        alphas=rates,
        gammas=gammas,
        c=float(c),
        rounds=rounds,
        tokens_per_pass=expected_accepted_tokens(rates[:, None], gammas),
        speedup=speculative_speedup(rates[:, None], gammas, c),
        optimal_gamma=optimal_gamma(rates, np.full(rates.shape, c), max_gamma=max_gamma),
        simulated_tokens_per_pass=means,
        simulated_speedup=means / cost,
        tokens_standard_error=errors,
        speedup_standard_error=errors / cost,
    )


def _lengths(
    rng: np.random.Generator, alpha: float, max_gamma: int, rounds: int
) -> NDArray[np.int64]:
    """Tokens emitted by each round at each draft length, shape ``(rounds, max_gamma)``."""
    accepted = np.logical_and.accumulate(rng.random((rounds, max_gamma)) < alpha, axis=1)
    lengths: NDArray[np.int64] = np.cumsum(accepted, axis=1) + 1
    return lengths
