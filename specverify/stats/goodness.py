"""Goodness of fit at a fixed number of observations: looked at once, after the last draw.

Whoever looks again and again needs the e-processes of this package: a chi-square test at 1e-3
that is repeated 100 times alarms in about 3 % of correct audits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from specverify.errors import InvalidInputError
from specverify.stats._check import Floats, Ints, as_counts, as_probs, check_rng
from specverify.stats.cells import IMPOSSIBLE, cell_sums, pool_cells
from specverify.stats.tails import chi2_cdf, chi2_sf

__all__ = [
    "GoodnessOfFit",
    "identity_statistic",
    "monte_carlo_p_value",
    "pearson",
    "pooled_chi_square",
]


@dataclass(frozen=True, eq=False)
class GoodnessOfFit:
    """A pooled chi-square test.

    Attributes:
        statistic: Pearson's statistic over the cells.
        dof: Degrees of freedom, ``cells - 1``.
        p_value: Probability under the law of a statistic at least this large; exactly 0 if an
            impossible token was seen, since that has probability zero under the law.
        n: Observations, impossible tokens included.
        cells: Number of cells.
        observed: Counts by cell, shape ``(cells,)``.
        expected: Expected counts by cell, shape ``(cells,)``.
        violations: Observations of tokens whose probability is zero. They enter no cell.
    """

    statistic: float
    dof: int
    p_value: float
    n: int
    cells: int
    observed: Floats
    expected: Floats
    violations: int

    @property
    def too_good(self) -> float:
        """Probability under the law of a statistic at most this small.

        Tiny values say that the observations are not independent draws (coupled or recycled
        randomness, counts made up from the law): a fault of the experiment, not a good fit.
        """
        return 1.0 if self.dof == 0 else chi2_cdf(self.statistic, self.dof)

    @property
    def tv_estimate(self) -> float:
        """Plug-in total variation between observed and expected cells; biased upwards by noise."""
        if self.n == 0:
            return 0.0
        shares = np.abs(self.observed / self.n - self.expected / max(self.expected.sum(), 1.0))
        return float(0.5 * (shares.sum() + self.violations / self.n))


def pooled_chi_square(
    counts: Ints,
    probs: Floats,
    *,
    min_expected: float = 10.0,
    max_cells: int | None = None,
    cells: Ints | None = None,
) -> GoodnessOfFit:
    """Pearson's chi-square test of token counts against a law, on cells fixed in advance.

    Args:
        counts: Occurrences of each token, shape ``(vocab,)``.
        probs: The law under test, shape ``(vocab,)``.
        min_expected: Least expected count of a cell, see ``pool_cells``.
        max_cells: Largest number of cells.
        cells: Cell of each token instead, int64 shape ``(vocab,)``, e.g. from ``pool_cells`` at
            the planned number of observations; tokens of probability zero are left out anyway.

    Returns:
        The test. With no observations or one cell: statistic 0, 0 degrees of freedom or more,
        p-value 1.

    Raises:
        InvalidInputError: If the shapes differ, ``probs`` is no distribution, or counts are not
            whole and non-negative.

    References:
        Pearson (1900), Philosophical Magazine 50(302).
    """
    law = as_probs("probs", probs)
    seen = as_counts("counts", counts, len(law))
    violations = int(seen[law == 0].sum())
    kept = int(seen.sum()) - violations
    if cells is None:
        cells = pool_cells(law, kept, min_expected=min_expected, max_cells=max_cells)
    elif cells.shape != law.shape:
        raise InvalidInputError("cells", f"needs shape {law.shape}, got {cells.shape}")
    cells = np.where(law > 0, cells, IMPOSSIBLE)
    observed, expected = cell_sums(seen, cells), kept * cell_sums(law, cells)
    dof = max(len(observed) - 1, 0)
    statistic = pearson(observed, expected) if dof else 0.0
    p_value = chi2_sf(statistic, dof) if dof and kept else 1.0
    return GoodnessOfFit(
        statistic=statistic,
        dof=dof,
        p_value=0.0 if violations else p_value,
        n=kept + violations,
        cells=len(observed),
        observed=observed,
        expected=expected,
        violations=violations,
    )


def pearson(observed: Floats | Ints, expected: Floats) -> float:
    """Pearson's statistic ``sum (observed - expected)^2 / expected`` over non-empty cells.

    Args:
        observed: Counts, shape ``(cells,)``.
        expected: Expected counts, shape ``(cells,)``; cells that expect nothing are left out.
    """
    used = expected > 0
    gaps = observed[used] - expected[used]
    return float(np.sum(gaps * gaps / expected[used]))


def identity_statistic(
    counts: Ints, probs: Floats, *, exponent: float = 1.0, truncation: float = 0.01
) -> float:
    """Distance of counts from a law, unbiased by rare tokens: for vocabularies beyond ``n``.

    ``sum ((counts - n p)^2 - counts) / p^exponent``, where the tokens below
    ``truncation / (2 vocab)`` are merged into one. The subtracted count removes the Poisson noise
    that swamps Pearson's statistic when most tokens are never seen. Its law is not tabulated:
    hand it to ``monte_carlo_p_value``.

    Args:
        counts: Occurrences of each token, shape ``(vocab,)``.
        probs: The law under test, shape ``(vocab,)``.
        exponent: 1 weighs as Pearson does; 2/3 is optimal instance by instance.
        truncation: Share of the mass that may be merged.

    Returns:
        The statistic; near ``-n`` times a constant for a good fit, large for a bad one.

    References:
        Acharya, Daskalakis and Kamath (2015), arXiv:1507.05952, section 2 (exponent 1);
        Valiant and Valiant (2017), SIAM J. Comput. 46(1), section 2 (exponent 2/3).
    """
    rare = probs < truncation / (2 * len(probs))
    law = np.append(probs[~rare], probs[rare].sum())
    seen = np.append(counts[~rare], counts[rare].sum()).astype(np.float64)
    used = law > 0
    gaps = seen[used] - seen.sum() * law[used]
    return float(np.sum((gaps * gaps - seen[used]) / law[used] ** exponent))


def monte_carlo_p_value(
    counts: Ints,
    probs: Floats,
    rng: np.random.Generator,
    *,
    statistic: Callable[[Ints, Floats], float] | None = None,
    replicates: int = 999,
) -> float:
    """P-value of counts by drawing them anew from the law: right whatever the cells expect.

    Args:
        counts: Occurrences of each token, shape ``(vocab,)``.
        probs: The law under test, shape ``(vocab,)``.
        rng: Source of the replicates.
        statistic: Takes ``(counts, probs)``; large means a bad fit. Pearson's on raw cells when
            None.
        replicates: Number of draws; the smallest p-value is ``1 / (replicates + 1)``.

    Returns:
        ``(1 + number of replicates at least as extreme) / (1 + replicates)``: never zero, except
        that it is exactly 0 if a token of probability zero was seen.

    Raises:
        InvalidInputError: If the inputs are no counts, distribution or generator.

    References:
        Davison and Hinkley (1997), Bootstrap Methods and their Application, section 4.2.1.
    """
    check_rng(rng)
    law = as_probs("probs", probs)
    seen = as_counts("counts", counts, len(law))
    if replicates < 1:
        raise InvalidInputError("replicates", f"must be at least 1, got {replicates}")
    if np.any(seen[law == 0]):
        return 0.0
    measure = statistic or (lambda some, probs: pearson(some, int(some.sum()) * probs))
    n = int(seen.sum())
    # Rounding must not turn a tie into a rarer event.
    bar = measure(seen, law) * (1 - 1e-12) if n else -np.inf
    extreme = sum(measure(rng.multinomial(n, law), law) >= bar for _ in range(replicates))
    return (1 + int(extreme)) / (1 + replicates)
