"""Pairs of laws that look like a language model's: what the studies of this package run on."""

from __future__ import annotations

import numpy as np
from scipy import optimize

from specverify.errors import InvalidInputError
from specverify.stats._check import Floats, check_fraction, check_rng

__all__ = ["zipf_pair"]

# Exponent and offset of the Zipf-Mandelbrot law, and scatter of its logarithms.
_EXPONENT, _OFFSET, _SCATTER = 1.1, 2.7, 0.5
_WIDEST = 12.0


def zipf_pair(
    vocab_size: int, rng: np.random.Generator, *, alpha: float = 0.8
) -> tuple[Floats, Floats]:
    """A Zipf-Mandelbrot target in shuffled order and a draft of a chosen acceptance rate.

    The draft is the target times log-normal noise whose spread is tuned to ``alpha``.

    Args:
        vocab_size: Number of tokens, at least 2.
        rng: Source of the shuffle and of the noise.
        alpha: Acceptance rate ``sum min(target, draft)``.

    Returns:
        ``(target_probs, draft_probs)``, each of shape ``(vocab_size,)``.

    Raises:
        InvalidInputError: If an argument is out of range or no spread gives that rate.

    References:
        Mandelbrot (1953), in Communication Theory (Jackson, ed.), on the law of ranks.
    """
    check_rng(rng)
    check_fraction("alpha", alpha)
    if vocab_size < 2:
        raise InvalidInputError("vocab_size", f"must be at least 2, got {vocab_size}")
    logits = -_EXPONENT * np.log(np.arange(1, vocab_size + 1) + _OFFSET)
    logits = rng.permutation(logits + _SCATTER * rng.standard_normal(vocab_size))
    target, noise = _softmax(logits), rng.standard_normal(vocab_size)

    def surplus(spread: float) -> float:
        return float(np.minimum(target, _softmax(logits + spread * noise)).sum()) - alpha

    if surplus(_WIDEST) > 0:
        raise InvalidInputError("alpha", f"no draft of this noise is accepted so rarely: {alpha}")
    spread = float(optimize.brentq(surplus, 0.0, _WIDEST, xtol=1e-10))
    return target, _softmax(logits + spread * noise)


def _softmax(logits: Floats) -> Floats:
    weights: Floats = np.exp(logits - logits.max())
    law: Floats = weights / weights.sum()
    return law
