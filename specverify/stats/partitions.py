"""Partitions of the vocabulary on which the e-process learns what it was not told."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from specverify.stats._check import Floats, Ints
from specverify.stats.cells import IMPOSSIBLE

__all__ = ["Partition", "standard_partitions"]

_RATIO_CELLS = 16
_ID_CELLS = 16
_STRIDES = 64  # strides an id cell, where the vocabulary is large
_RANK_CELLS = (16, 128, 1024)


@dataclass(frozen=True, eq=False)
class Partition:
    """Tokens merged into cells.

    Attributes:
        name: What the cells stand for.
        probs: Target mass of each cell, shape ``(cells,)``, all positive.
        ranks: Place of each token in the order that the cells cut, int shape ``(vocab,)``;
            tokens that the target excludes come last.
        starts: Place of each cell's first token, shape ``(cells,)``.
        support: Number of tokens that the target does not exclude.
    """

    name: str
    probs: Floats
    ranks: NDArray[np.int32]
    starts: Ints
    support: int

    def cells(self, tokens: Ints) -> Ints:
        """Cell of each token; ``IMPOSSIBLE`` where the target is zero."""
        places = self.ranks[tokens]
        found = np.searchsorted(self.starts, places, side="right") - 1
        return np.where(places < self.support, found, IMPOSSIBLE)


def standard_partitions(target_probs: Floats, draft_probs: Floats | None) -> list[Partition]:
    """Cells by the sign and size of target/draft, by id, and by the token's rank at three widths.

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
        share = target_probs / (both if support == len(both) else np.where(both > 0, both, 1.0))
        along = _Along(target_probs, share, support)
        partitions.append(along.partition("target/draft", _RATIO_CELLS))
    if support > _ID_CELLS:
        partitions.append(_by_id(target_probs, _ID_CELLS))
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
        keys = np.uint16(0xFFFE) - keys
        if support < len(probs):
            keys[probs == 0] = 0xFFFF
        order = np.argsort(keys, kind="stable")
        self._ranks = np.empty(len(probs), dtype=np.int32)
        self._ranks[order] = np.arange(len(probs), dtype=np.int32)
        self._probs = probs[order[:support]]
        self._middle = np.cumsum(self._probs)
        self._middle -= self._probs / 2

    def partition(self, name: str, size: int) -> Partition:
        """Cells of about equal mass: tokens heavier than a cell are never merged with another."""
        support = len(self._probs)
        starts = np.arange(support)
        if support > size:
            edges = np.searchsorted(self._middle, np.arange(size) / size)
            starts = np.unique(edges[edges < support])
        mass = np.add.reduceat(self._probs, starts)
        return Partition(name, mass, self._ranks, starts, support)


def _by_id(probs: Floats, size: int) -> Partition:
    """Runs of ids: whoever inverts a distribution function with a used uniform leans along them."""
    # Cells begin at multiples of a stride, so that only its sums are cumulated.
    strides = np.arange(0, len(probs), max(1, len(probs) // (size * _STRIDES)))
    sums = np.add.reduceat(probs, strides)
    middle = np.cumsum(sums) - sums / 2
    starts = strides[np.unique(np.searchsorted(middle, np.arange(size) / size * middle[-1]))]
    mass = np.add.reduceat(probs, starts)
    places = np.arange(len(probs), dtype=np.int32)
    places[probs == 0] = len(probs)
    return Partition("id", mass[mass > 0], places, starts[mass > 0], len(probs))


def _by_sign(target_probs: Floats, draft_probs: Floats) -> Partition:
    # Two cells need no order: the token's cell is its place.
    above = target_probs > draft_probs
    mass = np.array([target_probs @ side.astype(np.float64) for side in (above, ~above)])
    places = (~above).astype(np.int32)
    if not mass.all():
        mass, places[:] = mass[mass > 0], 0
    places[target_probs == 0] = len(mass)
    return Partition("target above draft", mass, places, np.arange(len(mass)), len(mass))
