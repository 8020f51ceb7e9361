"""How many target passes a text takes, given the laws along it.

Given that the text came out, its token ``x`` at a drafted position was an accepted draft with a
known probability that depends on nothing else: ``min(target, draft)(x) / target(x)`` under the
standard rule, ``draft(x)`` where a target sample is matched. Blocks are then a Markov chain along
the text, and the law of their number follows exactly however acceptance varies by context.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["kept_chances", "pass_moments"]

Floats = NDArray[np.float64]


def kept_chances(target_probs: Floats, draft_probs: Floats, *, matching: bool = False) -> Floats:
    """Probability that an emitted token was an accepted draft, where a draft stood.

    Args:
        target_probs: Target's probability of each emitted token, any shape.
        draft_probs: Draft's probability of it, same shape.
        matching: Sample-and-match instead of the standard rule.

    Returns:
        Probabilities, same shape.
    """
    if matching:
        return draft_probs
    safe = np.where(target_probs > 0, target_probs, 1.0)
    chances: Floats = np.minimum(target_probs, draft_probs) / safe
    return chances


def pass_moments(chances: Floats, gamma: int, *, bonus: bool = True) -> tuple[float, float]:
    """Mean and variance of the number of passes that emitted one text.

    Args:
        chances: :func:`kept_chances` of its tokens, shape ``(length,)``.
        gamma: Drafted tokens in a pass.
        bonus: Whether a token follows a block whose drafts were all accepted.

    Returns:
        Mean and variance.
    """
    # Moments of the passes so far, by the number of accepted drafts of the block under way.
    states = gamma + 1 if bonus else gamma
    weight, first, second = (np.zeros(states) for _ in range(3))
    weight[0] = 1.0
    for chance in chances:
        # A token at state 0 opens a block: one more pass.
        second[0] += 2 * first[0] + weight[0]
        first[0] += weight[0]
        keep = np.full(states, float(chance))
        if bonus:
            keep[gamma] = 0.0  # the bonus token ends its block
        weight, first, second = (_advance(values, keep) for values in (weight, first, second))
    mean = float(first.sum())
    return mean, max(0.0, float(second.sum()) - mean**2)


def _advance(values: Floats, keep: Floats) -> Floats:
    moved = np.zeros_like(values)
    moved[1:] = (values * keep)[:-1]
    # Without a bonus the last accepted draft ends the block as a correction does.
    moved[0] = float((values * (1 - keep)).sum() + (values * keep)[-1])
    return moved
