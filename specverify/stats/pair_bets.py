"""Evidence that tokens depend on each other where the law says that they do not.

Marginal laws can be right while pairs are wrong: one uniform for two tokens, a Gumbel vector used
again, rows of a batch that share a generator. Each bet predicts a later token from an earlier one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from specverify.errors import InvalidInputError
from specverify.stats._check import Floats, Ints, as_probs
from specverify.stats.bets import dirichlet_log_e, log_mixture
from specverify.stats.hazard import acceptance_log_e

__all__ = ["pair_log_e", "pair_table", "repeat_log_e"]

# Concentrations a cell of the later token.
_CONCENTRATIONS = np.array([0.5, 5.0, 50.0])


def pair_table(cells: Ints, lag: int, size: int) -> Ints:
    """Count pairs of cells ``lag`` tokens apart in one stream.

    Args:
        cells: Cell of each token in order, int shape ``(n,)``.
        lag: Distance, at least 1; 1, 2 and gamma + 1 see most shared randomness.
        size: Number of cells.

    Returns:
        Counts, shape ``(size, size)``, earlier cell first; tables of shards may be added.

    Raises:
        InvalidInputError: If the lag is below 1.
    """
    if lag < 1:
        raise InvalidInputError("lag", f"must be at least 1, got {lag}")
    flat = cells[:-lag] * size + cells[lag:]
    return np.bincount(flat, minlength=size * size).reshape(size, size)


def pair_log_e(table: Ints, later_probs: Any) -> float:
    """Bet on a token's cell given an earlier token's, as a function of the counts of pairs.

    Args:
        table: Counts of pairs, earlier cell first, shape ``(earlier, later)``. The earlier one may
            be anything known before the later token is drawn: a token, a row of the batch, the
            accept decision.
        later_probs: Law of the later token's cell, whatever the earlier one, ``(later,)``.

    Returns:
        Logarithm of the e-value, valid at any stopping time; ``inf`` if a cell of probability
        zero was seen.

    Raises:
        InvalidInputError: If the shapes do not fit.
    """
    law, counts = as_probs("later_probs", later_probs), np.asarray(table)
    if counts.ndim != 2 or counts.shape[1] != len(law):
        raise InvalidInputError("table", f"needs shape (earlier, {len(law)}), got {counts.shape}")
    possible = law > 0
    if np.any(counts[:, ~possible]):
        return float("inf")
    seen, probs = counts[:, possible], law[possible]
    bets: Floats = np.array(
        [dirichlet_log_e(seen, probs, each * len(probs)).sum() for each in _CONCENTRATIONS]
    )
    return float(log_mixture(bets, np.full(len(bets), 1 / len(bets))))


def repeat_log_e(tokens: Any, earlier_tokens: Any, target_probs: Any) -> float:
    """Bet that a token repeats another one more, or less, often than its law says.

    Sees what pairs of cells cannot: the same Gumbel vector under two different laws.

    Args:
        tokens: The later tokens, int shape ``(n,)``.
        earlier_tokens: The token that each is compared with (lag 1, gamma + 1, or the same
            position of another row), same shape.
        target_probs: The later tokens' laws, shape ``(n, vocab)`` or ``(vocab,)``.

    Returns:
        Logarithm of the e-value, valid at any stopping time.

    Raises:
        InvalidInputError: If the shapes do not fit.
    """
    later, earlier = np.asarray(tokens, dtype=np.int64), np.asarray(earlier_tokens, dtype=np.int64)
    if later.shape != earlier.shape or later.ndim != 1:
        raise InvalidInputError("earlier_tokens", f"needs shape {later.shape}, got {earlier.shape}")
    laws = as_probs("target_probs", target_probs)
    chances = laws[earlier] if laws.ndim == 1 else laws[np.arange(len(later)), earlier]
    return acceptance_log_e(later == earlier, np.minimum(chances, 1.0))
