"""What the evidence looks like: a hint at a known bug, never more than the data say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

__all__ = ["UNKNOWN", "Naming", "name_alternative", "posterior_shares"]

UNKNOWN = "unknown"  # the share of the bets that are about no known bug


@dataclass(frozen=True)
class Naming:
    """The known laws that fit.

    Attributes:
        consistent_with: The best known law, or None if the bets about no known bug fit better.
        siblings: Other known laws that fit nearly as well, best first.
        share: Posterior share of ``consistent_with`` (of ``UNKNOWN`` where that is None).
    """

    consistent_with: str | None
    siblings: tuple[str, ...]
    share: float


def posterior_shares(log_weights: Mapping[str, float]) -> dict[str, float]:
    """Share of each hypothesis in the total of ``exp(log_weights)``.

    Args:
        log_weights: Logarithm of prior weight times likelihood ratio, by name. ``-inf`` excludes.

    Returns:
        Shares that sum to one; all to ``UNKNOWN`` if everything is excluded.
    """
    values = np.array(list(log_weights.values()), dtype=np.float64)
    if not np.any(values > -np.inf):
        return {**dict.fromkeys(log_weights, 0.0), UNKNOWN: 1.0}
    shares = np.exp(values - np.logaddexp.reduce(values))
    return dict(zip(log_weights, shares.tolist(), strict=True))


def name_alternative(shares: Mapping[str, float], *, sibling_ratio: float = 0.05) -> Naming:
    """Name the known law that the data are most consistent with.

    A bug that is not in the dictionary often looks like one that is (a sibling reached a share of
    .95 in up to 96 % of early audits), so say "consistent with", and list the siblings.

    Args:
        shares: Posterior shares by name, with ``UNKNOWN`` for the rest.
        sibling_ratio: Laws with at least this share of the best one's are listed beside it.
    """
    known = {name: share for name, share in shares.items() if name != UNKNOWN}
    unknown = shares.get(UNKNOWN, 0.0)
    best = max(known, key=lambda name: known[name], default=None)
    if best is None or known[best] <= unknown:
        close = _close(known, unknown * sibling_ratio)
        return Naming(None, tuple(close), unknown)
    siblings = [name for name in _close(known, known[best] * sibling_ratio) if name != best]
    return Naming(best, tuple(siblings), known[best])


def _close(shares: Mapping[str, float], least: float) -> list[str]:
    fitting = [name for name, share in shares.items() if share > 0 and share >= least]
    return sorted(fitting, key=lambda name: -shares[name])
