"""Partitions of the vocabulary on which the e-process learns what it was not told."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from specverify.stats._check import Floats, Ints
from specverify.stats.cells import IMPOSSIBLE, cell_sums

__all__ = ["Partition", "quantile_cells", "standard_partitions"]

_RATIO_CELLS = 16
_RANK_CELLS = (16, 128, 1024)


@dataclass(frozen=True, eq=False)
class Partition:
    """Tokens merged into cells.

    Attributes:
        name: What the cells stand for.
        cells: Cell of each token, int64 shape ``(vocab,)``; ``IMPOSSIBLE`` where the target is 0.
        probs: Target mass of each cell, shape ``(cells,)``, all positive.
    """

    name: str
    cells: Ints
    probs: Floats


def standard_partitions(target_probs: Floats, draft_probs: Floats | None) -> list[Partition]:
    """Cells by the sign and size of target/draft, and by the token's rank at three widths.

    Args:
        target_probs: Target law, shape ``(vocab,)``.
        draft_probs: Draft law, same shape; None leaves out the cells by ratio.

    Returns:
        Partitions with at least two cells each; those that repeat another are left out.
    """
    partitions = []
    possible = target_probs > 0
    if draft_probs is not None:
        gains = (target_probs > draft_probs).astype(np.int64)
        partitions.append(_partition("target above draft", target_probs, gains))
        ratio = np.divide(
            draft_probs, target_probs, out=np.full(len(target_probs), np.inf), where=possible
        )
        order = np.argsort(ratio, kind="stable")
        cells = quantile_cells(target_probs, order, _RATIO_CELLS)
        partitions.append(_partition("target/draft", target_probs, cells))
    order = np.argsort(-target_probs, kind="stable")
    support = int(np.count_nonzero(possible))
    for size in _RANK_CELLS:
        cells = quantile_cells(target_probs, order, size)
        partitions.append(_partition(f"rank/{size}", target_probs, cells))
        if size >= support:
            break
    return [partition for partition in partitions if len(partition.probs) > 1]


def quantile_cells(probs: Floats, order: Ints, size: int) -> Ints:
    """Cells of about equal mass along an order of the tokens.

    A token of more than ``1 / size`` is never merged with another such token.

    Args:
        probs: The law, shape ``(vocab,)``.
        order: Permutation of the tokens.
        size: Number of quantiles; vocabularies that are no larger keep every token apart.

    Returns:
        Quantile of each token, int64 shape ``(vocab,)``; some quantiles may stay empty.
    """
    cells = np.empty(len(probs), dtype=np.int64)
    if len(probs) <= size:
        cells[order] = np.arange(len(probs))
        return cells
    along = probs[order]
    middle = np.cumsum(along) - along / 2
    cells[order] = np.minimum(middle * size, size - 1).astype(np.int64)
    return cells


def _partition(name: str, probs: Floats, cells: Ints) -> Partition:
    """Number the cells that have mass consecutively."""
    mass = np.bincount(cells, weights=probs)
    number = np.where(mass > 0, np.cumsum(mass > 0) - 1, IMPOSSIBLE)
    numbered = np.where(probs > 0, number[cells], IMPOSSIBLE)
    return Partition(name, numbered, cell_sums(probs, numbered))
