"""Pairs of tokens against their known joint law: what the marginals cannot see."""

from __future__ import annotations

from typing import Any

import numpy as np

from specverify.errors import InvalidInputError
from specverify.stats._check import Ints, as_probs
from specverify.stats.cells import IMPOSSIBLE, cell_sums, pool_cells
from specverify.stats.goodness import GoodnessOfFit, pooled_chi_square

__all__ = ["independence_test", "joint_test"]


def joint_test(
    counts: Ints, joint_probs: Any, *, min_expected: float = 10.0, max_cells: int | None = None
) -> GoodnessOfFit:
    """Test counts of tuples of tokens against their joint law.

    Args:
        counts: Occurrences of each tuple, one axis a token, e.g. ``(vocab, vocab)``.
        joint_probs: The joint law, same shape, sums to one over all axes.
        min_expected: Least expected count of a cell of tuples.
        max_cells: Largest number of cells.

    Returns:
        The pooled chi-square test over tuples.

    Raises:
        InvalidInputError: If the shapes differ or the joint law is no distribution.
    """
    law = np.asarray(joint_probs, dtype=np.float64)
    table = np.asarray(counts)
    if table.shape != law.shape:
        raise InvalidInputError("counts", f"needs shape {law.shape}, got {table.shape}")
    return pooled_chi_square(
        table.ravel(), law.ravel(), min_expected=min_expected, max_cells=max_cells
    )


def independence_test(
    pair_counts: Ints,
    first_probs: Any,
    second_probs: Any,
    *,
    cells_per_token: int = 16,
) -> GoodnessOfFit:
    """Test that two tokens with known laws are drawn independently of each other.

    Tokens are pooled before the pairs are formed, so a large vocabulary costs little.

    Args:
        pair_counts: Occurrences of pairs, shape ``(vocab, vocab)``, first token first.
        first_probs: Law of the first token, shape ``(vocab,)``.
        second_probs: Law of the second token, in every context alike, shape ``(vocab,)``.
        cells_per_token: Largest number of cells of each token.

    Returns:
        The pooled chi-square test of the product law.

    Raises:
        InvalidInputError: If the shapes do not fit or a law is no distribution.
    """
    first, second = as_probs("first_probs", first_probs), as_probs("second_probs", second_probs)
    table = np.asarray(pair_counts)
    if table.shape != (len(first), len(second)):
        expected = (len(first), len(second))
        raise InvalidInputError("pair_counts", f"needs shape {expected}, got {table.shape}")
    rows = _with_impossible(pool_cells(first, 1 << 53, max_cells=cells_per_token))
    columns = _with_impossible(pool_cells(second, 1 << 53, max_cells=cells_per_token))
    size = (int(rows.max()) + 1, int(columns.max()) + 1)
    merged = np.zeros(size, dtype=np.int64)
    np.add.at(merged, (rows[:, None], columns[None, :]), table)
    law = np.outer(cell_sums(first, rows), cell_sums(second, columns))
    return pooled_chi_square(merged.ravel(), law.ravel())


def _with_impossible(cells: Ints) -> Ints:
    """Give impossible tokens a cell of their own, of probability zero."""
    return np.where(cells == IMPOSSIBLE, cells.max() + 1, cells)
