"""How many drafts block verification accepts: prefixes are judged by their joint probabilities."""

from __future__ import annotations

import math

import numpy as np

from specverify._arrays import FloatArray
from specverify.audit.chains import Chain

__all__ = ["jointly_accepted_pmf", "prefixes"]


def prefixes(chain: Chain, gamma: int) -> int:
    """Most drafted blocks of that length: what :func:`jointly_accepted_pmf` goes through."""
    supports = (chain.draft[:gamma] > 0).sum(axis=-1).max(axis=-1)
    return math.prod(int(support) for support in supports)


def jointly_accepted_pmf(chain: Chain, gamma: int, *, context: int | None = None) -> FloatArray:
    """Law of the number of accepted drafts in a block that starts at the first row.

    At least ``i`` drafts are accepted with probability ``sum Q(x) p(x)`` over prefixes ``x`` of
    length ``i``, where ``Q p`` of a longer prefix is the smaller of ``Q p`` of the prefix before
    times the target's probability, and ``Q`` of the longer one.

    Args:
        chain: The rows.
        gamma: Drafted tokens.
        context: Context of the first row; that of the chain's start when None.

    Returns:
        Probabilities of 0 to ``gamma`` accepted drafts.

    References:
        Sun et al. (2024), arXiv:2403.10444, algorithm 2 and its proof of validity.
    """
    contexts = np.array([chain.start if context is None else context])
    drafted, accepted, survival = np.ones(1), np.ones(1), [1.0]
    tokens = np.arange(chain.vocab_size)
    for position in range(gamma):
        longer = drafted[:, None] * chain.draft[position, contexts]
        kept = np.minimum(accepted[:, None] * chain.target[position, contexts], longer)
        survival.append(float(kept.sum()))
        alive = kept > 0
        contexts = np.asarray(chain.after(contexts[:, None], tokens))[alive]
        drafted, accepted = longer[alive], kept[alive]
    steps = np.diff(np.array([0.0, *survival[::-1]]))[::-1]
    return np.maximum(steps, 0.0)
