"""Cells: tokens merged in advance so that every cell is expected often enough to be counted."""

from __future__ import annotations

import numpy as np

from specverify.errors import InvalidInputError
from specverify.stats._check import Floats, Ints, as_probs

__all__ = ["IMPOSSIBLE", "cell_sums", "pool_cells"]

IMPOSSIBLE = -1  # cell id of tokens whose probability is exactly zero

# A cell that misses its mass by rounding alone is full.
_SLACK = 1e-12


def pool_cells(
    probs: Floats, n: int, *, min_expected: float = 10.0, max_cells: int | None = None
) -> Ints:
    """Merge tokens, most probable first, into cells that each expect ``min_expected`` of ``n``.

    The cells depend on the law and on ``n`` alone, never on what was observed.

    Args:
        probs: The law under test, shape ``(vocab,)``.
        n: Number of observations that will be counted.
        min_expected: Least expected count of a cell. With 10 or more the chi-square law of
            Pearson's statistic holds at level 1e-3; with raw cells of a large vocabulary it does
            not (false alarms of 26 % for 0.1 %).
        max_cells: Largest number of cells; fewer cells give power against broad deviations.

    Returns:
        Cell of each token, int64 shape ``(vocab,)``: 0, 1, ... in order of decreasing
        probability, and ``IMPOSSIBLE`` (-1) for tokens of probability zero. A remainder that is
        expected too seldom joins the last cell, so there is one cell if none can be filled.

    Raises:
        InvalidInputError: If ``probs`` is no distribution, ``n`` is negative, ``min_expected`` is
            not positive or ``max_cells`` is below 1.

    References:
        Cochran (1954), Biometrics 10(4), section 2, on the least expected count.
    """
    law = as_probs("probs", probs)
    if law.ndim != 1:
        raise InvalidInputError("probs", f"needs one axis, got shape {law.shape}")
    if n < 0:
        raise InvalidInputError("n", f"must not be negative, got {n}")
    if not min_expected > 0:
        raise InvalidInputError("min_expected", f"must be positive, got {min_expected}")
    if max_cells is not None and max_cells < 1:
        raise InvalidInputError("max_cells", f"must be at least 1, got {max_cells}")
    least = min_expected / n if n else np.inf
    order = np.argsort(-law, kind="stable")[: int(np.count_nonzero(law))]
    ids = np.full(len(law), IMPOSSIBLE, dtype=np.int64)
    ids[order] = _merge(law[order], max(least, 1.0 / max_cells if max_cells else 0.0))
    return ids


def cell_sums(values: Floats | Ints, cells: Ints) -> Floats:
    """Sum ``values`` over the tokens of each cell; tokens of ``IMPOSSIBLE`` are left out."""
    possible = cells >= 0
    size = int(cells.max(initial=IMPOSSIBLE)) + 1
    weights = np.asarray(values[possible], dtype=np.float64)
    sums: Floats = np.asarray(np.bincount(cells[possible], weights, minlength=size), np.float64)
    return sums


def _merge(descending: Floats, least: float) -> Ints:
    """Greedy cells of mass ``least`` along sorted probabilities: one bisection a merged cell."""
    own = int(np.count_nonzero(descending >= least * (1 - _SLACK)))
    mass = np.cumsum(descending)
    starts = list(range(own))
    start, done = own, (mass[own - 1] if own else 0.0)
    while start < len(descending):
        end = int(np.searchsorted(mass, done + least * (1 - _SLACK)))
        if end >= len(descending):
            break
        starts.append(start)
        start, done = end + 1, mass[end]
    marks = np.zeros(len(descending), dtype=np.int64)
    marks[starts] = 1
    merged: Ints = np.maximum(np.cumsum(marks) - 1, 0)
    return merged
