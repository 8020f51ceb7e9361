"""Parts of an enumerated law that one check each looks at."""

from __future__ import annotations

import math

import numpy as np

from specverify._arrays import FloatArray
from specverify.testing.enumeration import CaseResult
from specverify.theory.emitted_length import emitted_length_pmf

__all__ = ["length_tv", "marginal_tv", "unsupported_mass"]


def marginal_tv(result: CaseResult) -> float | None:
    """Largest total variation distance of a position's token, alone, from the target's row.

    Blocks that end early are continued by the target.

    Args:
        result: An enumerated case.

    Returns:
        The distance, or None where rows depend on the context.
    """
    if result.rows is None:
        return None
    target, _ = result.rows
    found = np.zeros_like(target)
    emitted = _inside(result)
    for position, row in enumerate(target):
        for tokens, mass in emitted.items():
            if len(tokens) > position:
                found[position, tokens[position]] += mass
            else:
                found[position] += mass * row
    return float(np.maximum(found - target, 0).sum(axis=-1).max())


def unsupported_mass(result: CaseResult) -> float | None:
    """Probability of a token that the target never emits, or that is outside the vocabulary.

    Args:
        result: An enumerated case.

    Returns:
        The probability, or None where rows depend on the context.
    """
    if result.rows is None:
        return None
    target, _ = result.rows
    forbidden = [
        mass
        for tokens, mass in _inside(result).items()
        if any(target[position, token] <= 0 for position, token in enumerate(tokens))
    ]
    return math.fsum([*forbidden, result.check.invalid_mass])


def length_tv(result: CaseResult) -> float | None:
    """Total variation distance of the emitted length from the standard rule's law.

    Args:
        result: An enumerated case.

    Returns:
        The distance, or None where rows depend on the context.

    References:
        Leviathan et al. (2023), arXiv:2211.17192, section 3.1.
    """
    if result.rows is None:
        return None
    target, draft = result.rows
    alphas: FloatArray = np.minimum(target[:-1], draft).sum(axis=-1)
    expected = emitted_length_pmf(np.minimum(alphas, 1.0))
    lengths = np.zeros(len(target) + 1)
    for tokens, mass in _inside(result).items():
        lengths[len(tokens)] += mass
    return float(np.maximum(lengths[1:] - expected, 0).sum())


def _inside(result: CaseResult) -> dict[tuple[int, ...], float]:
    """Emitted tuples of the right kind; the others are the check's ``invalid_mass``."""
    assert result.rows is not None
    longest, vocab = result.rows[0].shape
    return {
        tokens: mass
        for tokens, mass in result.check.law.probabilities.items()
        if isinstance(tokens, tuple)
        and 1 <= len(tokens) <= longest
        and all(isinstance(token, int) and 0 <= token < vocab for token in tokens)
    }
