"""Partitions of the vocabulary on which the e-process learns what it was not told."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from specverify.stats._check import Floats, Ints
from specverify.stats.cells import IMPOSSIBLE

__all__ = ["Partition", "standard_partitions"]

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
    support = int(np.count_nonzero(target_probs))
    if draft_probs is not None:
        partitions.append(_by_sign(target_probs, draft_probs))
        both = target_probs + draft_probs
        share = np.divide(target_probs, both, out=np.zeros(len(both)), where=both > 0)
        along = _Along(target_probs, share, support)
        partitions.append(along.partition("target/draft", _RATIO_CELLS))
    along = _Along(target_probs, target_probs, support)
    for size in _RANK_CELLS:
        partitions.append(along.partition(f"rank/{size}", size))
        if size >= support:
            break
    return [partition for partition in partitions if len(partition.probs) > 1]


class _Along:
    """The possible tokens of a law in decreasing order of a score in [0, 1]."""

    def __init__(self, probs: Floats, score: Floats, support: int) -> None:
        # The leading 16 bits of a float32 in [0, 1] order it to 0.2 %, and 16-bit integers are
        # sorted in linear time. Whatever the order, the cells stay valid.
        keys = (score.astype(np.float32).view(np.uint32) >> np.uint32(14)).astype(np.uint16)
        # Impossible tokens go last, behind possible ones whose score rounds to zero.
        keys = np.where(probs > 0, np.uint16(0xFFFE) - keys, np.uint16(0xFFFF))
        self._order = np.argsort(keys, kind="stable")
        self._probs = probs[self._order[:support]]
        self._middle = np.cumsum(self._probs) - self._probs / 2
        self._vocab = len(probs)

    def partition(self, name: str, size: int) -> Partition:
        """Cells of about equal mass: tokens heavier than a cell are never merged with another."""
        support = len(self._probs)
        if support <= size:
            number, starts = np.arange(support), np.arange(support)
        else:
            quantile = np.minimum(self._middle * size, size - 1).astype(np.int32)
            fresh = np.diff(quantile, prepend=-1) > 0
            starts = np.flatnonzero(fresh)
            number = np.repeat(np.arange(len(starts)), np.diff(starts, append=support))
        cells = np.full(self._vocab, IMPOSSIBLE, dtype=np.int64)
        cells[self._order[:support]] = number
        return Partition(name, cells, np.add.reduceat(self._probs, starts))


def _by_sign(target_probs: Floats, draft_probs: Floats) -> Partition:
    below = target_probs <= draft_probs
    mass = np.array([target_probs @ ~below, target_probs @ below])
    cells = below.astype(np.int64) if mass.all() else np.zeros(len(below), dtype=np.int64)
    return Partition(
        "target above draft", np.where(target_probs > 0, cells, IMPOSSIBLE), mass[mass > 0]
    )
