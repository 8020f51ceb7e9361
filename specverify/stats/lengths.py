"""Emitted lengths against exact laws, one law a round: right where acceptance varies by context."""

from __future__ import annotations

from typing import Any

import numpy as np

from specverify.errors import InvalidInputError
from specverify.stats._check import Floats, as_probs
from specverify.stats.cells import IMPOSSIBLE, pool_cells
from specverify.stats.goodness import GoodnessOfFit, pooled_chi_square
from specverify.stats.tails import chi2_sf

__all__ = ["emitted_length_test"]


def emitted_length_test(lengths: Any, pmfs: Any, *, min_expected: float = 10.0) -> GoodnessOfFit:
    """Test emitted lengths against the law that each round should follow.

    With one law for all rounds this is Pearson's test. With a law a round the counts are a sum of
    unequal multinomials (Poisson-binomial a length), and the statistic is the quadratic form in
    their exact covariance.

    Args:
        lengths: Index into the law of what each round emitted (for a law of 1..gamma+1 tokens:
            tokens less one), int shape ``(rounds,)``.
        pmfs: Laws, shape ``(outcomes,)`` for all rounds or ``(rounds, outcomes)``.
        min_expected: Least expected count of a cell of outcomes.

    Returns:
        The test; ``violations`` counts outcomes of probability zero in their own round.

    Raises:
        InvalidInputError: If the shapes do not fit or a law is no distribution.

    References:
        Wang (1993), Statistica Sinica 3(2), section 2, on sums of unequal trials.
    """
    laws = as_probs("pmfs", pmfs)
    seen = np.asarray(lengths, dtype=np.int64)
    if seen.ndim != 1 or (laws.ndim == 2 and len(laws) != len(seen)) or laws.ndim > 2:
        raise InvalidInputError("pmfs", f"shape {laws.shape} does not fit {len(seen)} rounds")
    if len(seen) and not (seen.min() >= 0 and seen.max() < laws.shape[-1]):
        raise InvalidInputError("lengths", f"must lie in [0, {laws.shape[-1]})")
    if laws.ndim == 1:
        counts = np.bincount(seen, minlength=len(laws))
        return pooled_chi_square(counts, laws, min_expected=min_expected)
    return _unequal_rounds(seen, laws, min_expected)


def _unequal_rounds(seen: Any, laws: Floats, min_expected: float) -> GoodnessOfFit:
    possible = laws[np.arange(len(seen)), seen] > 0
    violations = int(np.count_nonzero(~possible))
    seen, laws = seen[possible], laws[possible]
    if not len(seen):
        empty = np.zeros(0)
        return GoodnessOfFit(
            0.0, 0, 0.0 if violations else 1.0, violations, 0, empty, empty, violations
        )
    cells = pool_cells(laws.mean(axis=0), len(seen), min_expected=min_expected)
    merge = (cells[:, None] == np.arange(cells.max() + 1)).astype(np.float64)
    merged, size = laws @ merge, int(cells.max()) + 1
    # An outcome that no round of the rest allows has no cell and was not seen either.
    observed = np.bincount(cells[seen][cells[seen] != IMPOSSIBLE], minlength=size).astype(float)
    expected = merged.sum(axis=0)
    gap, covariance = observed - expected, np.diag(expected) - merged.T @ merged
    # The cells sum to the rounds, so one direction has no variance; others may where laws are sure.
    statistic = float(gap @ np.linalg.pinv(covariance, rcond=1e-10, hermitian=True) @ gap)
    dof = int(np.linalg.matrix_rank(covariance, tol=1e-10 * len(seen), hermitian=True))
    p_value = chi2_sf(statistic, dof) if dof else 1.0
    return GoodnessOfFit(
        statistic=statistic,
        dof=dof,
        p_value=0.0 if violations else p_value,
        n=len(seen) + violations,
        cells=size,
        observed=observed,
        expected=expected,
        violations=violations,
    )
