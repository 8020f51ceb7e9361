"""Exact intervals of many shares at once, for dots."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from specverify._arrays import FloatArray
from specverify.stats.intervals import clopper_pearson

__all__ = ["simultaneous"]


def simultaneous(
    counts: ArrayLike, trials: Any, family: int, *, confidence: float = 0.95
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Shares with exact intervals that hold together with probability ``confidence``.

    Args:
        counts: Successes, shape ``(n,)``.
        trials: Trials: one number or shape ``(n,)``.
        family: Number of intervals that shall hold together (Bonferroni).
        confidence: Coverage of all of them.

    Returns:
        ``(share, low, high)``, each of shape ``(n,)``; without a trial the share is NaN and the
        interval (0, 1).
    """
    hits = np.asarray(counts, dtype=np.int64)
    n = np.broadcast_to(np.asarray(trials, dtype=np.int64), hits.shape)
    each = 1 - (1 - confidence) / family
    bounds = [
        clopper_pearson(int(hit), int(of), confidence=each) for hit, of in zip(hits, n, strict=True)
    ]
    low, high = np.array(bounds).reshape(-1, 2).T
    share = np.where(n > 0, hits / np.maximum(n, 1), np.nan)
    return share, low, high
