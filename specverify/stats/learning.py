"""Bets that learn the true law of a partition's cells from the data."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from specverify.stats._check import Floats, Ints
from specverify.stats.bets import dirichlet_log_e, dirichlet_step_log_e
from specverify.stats.cells import IMPOSSIBLE
from specverify.stats.partitions import Partition

__all__ = ["CONCENTRATIONS", "imagined_law", "learning_steps", "learnt"]

Bools: TypeAlias = NDArray[np.bool_]

# Total concentrations a cell: from learning at once to hardly moving from the law.
CONCENTRATIONS = np.array([0.5, 30.0, 1000.0, 1e5])


def learnt(tokens: Ints, often: Floats, part: Partition) -> Floats:
    """Logarithm of the wealth of one partition's bets, one for each concentration.

    Args:
        tokens: Ids that occurred, shape ``(n,)``.
        often: How often each did, same shape.
        part: The cells.
    """
    counts = _cell_counts(tokens, often, part)
    seen = counts > 0  # a cell without a count brings a factor of one
    return dirichlet_log_e(counts[seen], part.probs[seen], CONCENTRATIONS * len(part.probs))


def learning_steps(ids: Ints, possible: Bools, start: Ints, part: Partition) -> Floats:
    """Logarithms of the same bets' factors at each token, shape ``(n, bets)``.

    Args:
        ids: Token ids in order, shape ``(n,)``.
        possible: Whether each has a probability; impossible ones leave the bets as they were.
        start: Counts of the tokens before, shape ``(vocab,)``.
        part: The cells.
    """
    strengths = CONCENTRATIONS * len(part.probs)
    cells, seen = part.cells(ids[possible]), np.flatnonzero(start)
    before = _cell_counts(seen, start[seen].astype(np.float64), part)
    earlier = before[cells] + _occurrences_before(cells)
    n_earlier = before.sum() + np.arange(len(cells))
    steps = np.zeros((len(ids), len(strengths)))
    steps[possible] = dirichlet_step_log_e(
        earlier[:, None], n_earlier[:, None], part.probs[cells, None], strengths
    )
    return steps


def imagined_law(law: Floats, part: Partition, bet: int, rng: np.random.Generator) -> Floats:
    """A law of the kind that one of the bets expects: its cells' masses are a Dirichlet draw.

    Args:
        law: The law under test, shape ``(vocab,)``.
        part: The cells.
        bet: Index of the concentration.
        rng: Source of the draw.
    """
    weights = rng.gamma(CONCENTRATIONS[bet] * len(part.probs) * part.probs)
    total = weights.sum()
    cells = part.cells(np.arange(len(law)))
    if not total > 0:  # every gamma underflowed: nearly all mass falls on one cell
        weights, total = rng.multinomial(1, part.probs).astype(np.float64), 1.0
    return np.where(cells == IMPOSSIBLE, 0.0, law * (weights / total / part.probs)[cells])


def _cell_counts(tokens: Ints, often: Floats, part: Partition) -> Floats:
    cells = part.cells(tokens)
    inside = cells != IMPOSSIBLE
    counts = np.bincount(cells[inside], weights=often[inside], minlength=len(part.probs))
    return counts.astype(np.float64)


def _occurrences_before(cells: Ints) -> Ints:
    """How often each entry's value occurred before it."""
    order = np.argsort(cells, kind="stable")
    along = cells[order]
    new = np.r_[True, along[1:] != along[:-1]][: len(cells)]
    first = np.maximum.accumulate(np.where(new, np.arange(len(cells)), 0))
    before = np.empty(len(cells), dtype=np.int64)
    before[order] = np.arange(len(cells)) - first
    return before
