"""Cells in which tokens are counted: fixed by laws and planned samples, never by the data."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["merge", "token_cells"]

Floats = NDArray[np.float64]


def token_cells(
    target_probs: Floats,
    draft_probs: Floats,
    n: float,
    *,
    min_expected: float = 10.0,
    max_cells: int = 10,
) -> NDArray[np.int64]:
    """Assign each token of one row to a cell.

    The most probable tokens stand alone; the rest is cut, in the order of target over draft, into
    groups of about equal mass: an acceptance or residual gone wrong moves mass along that order.

    Args:
        target_probs: Law of the token, shape ``(vocab,)``.
        draft_probs: Draft's law, same shape.
        n: Planned observations of this row.
        min_expected: Smallest expected count of a cell.
        max_cells: Largest number of cells.

    Returns:
        Cell ids from 0, shape ``(vocab,)``; tokens without mass join the last cell.
    """
    vocab_size = len(target_probs)
    alone = _largest(target_probs, max_cells if vocab_size <= max_cells else max_cells // 2)
    alone = alone[n * target_probs[alone] >= min_expected]
    others = np.ones(vocab_size, dtype=bool)
    others[alone] = False
    rest = np.flatnonzero(others)
    cells = np.empty(vocab_size, dtype=np.int64)
    cells[alone] = np.arange(len(alone))
    mass = float(target_probs[rest].sum())
    groups = max(1, min(max_cells - len(alone), int(n * mass / (2 * min_expected))))
    cells[rest] = len(alone) + _groups(target_probs[rest], draft_probs[rest], groups)
    if len(rest) and len(alone) and n * mass < min_expected:
        cells[rest] = len(alone) - 1
    return _without_gaps(cells)


def merge(values: NDArray[np.generic], cells: NDArray[np.int64]) -> Floats:
    """Sum ``values`` of each cell, shape ``(n_cells,)``."""
    merged: Floats = np.bincount(cells, weights=values.astype(np.float64)).astype(np.float64)
    return merged


def _largest(probs: Floats, count: int) -> NDArray[np.int64]:
    """The places of the largest values, in falling order; of equal ones the first come first."""
    if not 0 < count < len(probs):
        return np.argsort(-probs, kind="stable")[:count]
    least = np.partition(probs, -count)[-count]
    found = np.flatnonzero(probs >= least)  # all who may be among them: no need to sort the rest
    return found[np.argsort(-probs[found], kind="stable")][:count]


def _groups(target_probs: Floats, draft_probs: Floats, groups: int) -> NDArray[np.int64]:
    """Cut tokens, ordered by target over draft, into groups of about equal target mass."""
    if not len(target_probs):
        return np.zeros(0, dtype=np.int64)
    order = np.argsort(target_probs / (target_probs + draft_probs + 1e-300), kind="stable")
    before = np.cumsum(target_probs[order]) - target_probs[order] / 2
    total = max(float(target_probs.sum()), 1e-300)
    ids = np.empty(len(order), dtype=np.int64)
    ids[order] = np.minimum((before / total * groups).astype(np.int64), groups - 1)
    return ids


def _without_gaps(cells: NDArray[np.int64]) -> NDArray[np.int64]:
    """The same cells, numbered from 0 without a gap."""
    used = np.bincount(cells) > 0
    numbered: NDArray[np.int64] = (np.cumsum(used) - 1)[cells].astype(np.int64)
    return numbered
