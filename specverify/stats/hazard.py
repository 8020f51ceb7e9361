"""Acceptance against the laws that are known: one Bernoulli trial a tested position.

A correct engine accepts the draft token at a tested position with probability
``alpha = sum min(target, draft)`` of that very position, whatever happened before. The sum of
``accepted - alpha`` over the tested positions is therefore a martingale, also where alpha varies
by context; comparing block lengths with one pooled alpha is not valid there (it alarms in about
half of the correct audits at 1e-3).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import logsumexp

from specverify.errors import InvalidInputError
from specverify.stats._check import Floats
from specverify.stats.tails import normal_sf

__all__ = ["HazardTest", "acceptance_log_e", "acceptance_test"]

# Odds multipliers that the bets try: from acceptance nearly never to nearly always.
_ODDS = np.exp(np.array([-4.0, -2.0, -1.0, -0.5, -0.2, -0.05, 0.05, 0.2, 0.5, 1.0, 2.0, 4.0]))


@dataclass(frozen=True)
class HazardTest:
    """Accepted positions against their known probabilities.

    Attributes:
        statistic: ``sum (accepted - alpha) / sqrt(sum alpha (1 - alpha))``; about standard normal.
        p_value: Two-sided; exactly 0 if a certain position was rejected or an impossible one
            accepted.
        tested: Positions tested.
        accepted: Positions accepted.
        expected: Sum of the probabilities.
    """

    statistic: float
    p_value: float
    tested: int
    accepted: int
    expected: float


def acceptance_test(accepted: Any, probabilities: Any) -> HazardTest:
    """Test accept decisions against the probabilities that the rule gives them.

    Args:
        accepted: Booleans, one for every *tested* position (those after a rejection in the same
            block were never tested), any shape.
        probabilities: Probability of acceptance at each, same shape: ``acceptance_rate`` of the
            position's laws, or ``acceptance_probabilities`` of the drafted token.

    Returns:
        The test; p-value 1 where nothing was random.

    Raises:
        InvalidInputError: If the shapes differ or a probability lies outside [0, 1].

    References:
        Leviathan et al. (2023), arXiv:2211.17192, corollary 3.6.
    """
    flags, chances = _positions(accepted, probabilities)
    variance = float(np.sum(chances * (1 - chances)))
    surplus = float(np.sum(flags - chances))
    statistic = surplus / np.sqrt(variance) if variance > 0 else 0.0
    p_value = 2 * normal_sf(abs(statistic)) if variance > 0 else 1.0
    return HazardTest(
        statistic=float(statistic),
        p_value=0.0 if _impossible(flags, chances) else min(p_value, 1.0),
        tested=len(flags),
        accepted=int(flags.sum()),
        expected=float(chances.sum()),
    )


def acceptance_log_e(accepted: Any, probabilities: Any) -> float:
    """Evidence that acceptance deviates from its known probabilities, at any stopping time.

    An even mixture of bets, each on the odds of acceptance being multiplied by one factor
    throughout (12 factors from ``exp(-4)`` to ``exp(4)``).

    Args:
        accepted: As in ``acceptance_test``.
        probabilities: As in ``acceptance_test``.

    Returns:
        Logarithm of the e-value; compare with ``log(1 / level)``. ``inf`` if something happened
        that has probability zero. Additive bets: evaluate on all positions so far.

    Raises:
        InvalidInputError: If the shapes differ or a probability lies outside [0, 1].

    References:
        Shafer (2021), arXiv:1903.06991, section 2; Waudby-Smith and Ramdas (2024),
        arXiv:2010.09686, section 4.
    """
    flags, chances = _positions(accepted, probabilities)
    if _impossible(flags, chances):
        return float("inf")
    gains = np.array(
        [flags.sum() * np.log(odds) - np.sum(np.log1p(chances * (odds - 1))) for odds in _ODDS]
    )
    return float(logsumexp(gains) - np.log(len(_ODDS)))


def _positions(accepted: Any, probabilities: Any) -> tuple[Floats, Floats]:
    flags = np.asarray(accepted)
    chances = np.asarray(probabilities, dtype=np.float64)
    if flags.shape != chances.shape:
        raise InvalidInputError("probabilities", f"needs shape {flags.shape}, got {chances.shape}")
    if not np.all((flags == 0) | (flags == 1)):
        raise InvalidInputError("accepted", "has entries that are neither true nor false")
    if not np.all((chances >= 0) & (chances <= 1 + 1e-9)):
        raise InvalidInputError("probabilities", "has an entry outside [0, 1]")
    return flags.astype(np.float64).ravel(), np.minimum(chances, 1.0).ravel()


def _impossible(flags: Floats, chances: Floats) -> bool:
    return bool(np.any((flags == 1) & (chances == 0)) or np.any((flags == 0) & (chances == 1)))
