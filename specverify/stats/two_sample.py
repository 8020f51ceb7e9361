"""Two samples and no known law: is the engine's output that of its own plain decoding?

Far weaker than any test against a known law (hundreds of sequences an arm where 21 suffice), so
these are the last resort. All but the swap bets permute the arms' labels given the pooled sample,
hence are exact at every sample size.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import logsumexp

from specverify.errors import InvalidInputError
from specverify.stats._check import Floats, Ints, as_counts, check_rng
from specverify.stats.cells import cell_sums, pool_cells

__all__ = ["TwoSampleTest", "match_test", "permutation_chi_square", "swap_log_e"]

# How boldly the swap bets follow what they have learnt.
_BOLDNESS = np.array([1.0, 0.3, 0.1])
_FIRST_BATCH = 8


@dataclass(frozen=True)
class TwoSampleTest:
    """A permutation test of "both samples have one law".

    Attributes:
        statistic: The distance between the samples.
        p_value: ``(1 + as extreme) / (1 + replicates)``; never 0.
        sizes: Observations of each arm.
    """

    statistic: float
    p_value: float
    sizes: tuple[int, int]


def permutation_chi_square(
    first_counts: Ints,
    second_counts: Ints,
    rng: np.random.Generator,
    *,
    replicates: int = 999,
    min_expected: float = 5.0,
) -> TwoSampleTest:
    """Homogeneity chi-square of token counts, with its permutation law.

    Args:
        first_counts: Occurrences of each token in one arm, shape ``(vocab,)``.
        second_counts: The same of the other arm.
        rng: Source of the permutations.
        replicates: Number of permutations.
        min_expected: Least expected count of a cell in the smaller arm. Cells depend on the pooled
            counts alone, which permutations leave as they are.

    Returns:
        The test; p-value 1 if an arm is empty.

    Raises:
        InvalidInputError: If the shapes differ, counts are invalid or ``rng`` is no generator.

    References:
        Good (2005), Permutation, Parametric and Bootstrap Tests of Hypotheses, section 6.2.
    """
    check_rng(rng)
    first = as_counts("first_counts", first_counts, np.size(first_counts))
    second = as_counts("second_counts", second_counts, len(first))
    sizes = int(first.sum()), int(second.sum())
    if not min(sizes):
        return TwoSampleTest(0.0, 1.0, sizes)
    pooled = first + second
    cells = pool_cells(pooled / pooled.sum(), min(sizes), min_expected=min_expected)
    total = cell_sums(pooled, cells).astype(np.int64)
    draws = rng.multivariate_hypergeometric(total, sizes[0], size=replicates, method="marginals")
    expected = total * (sizes[0] / sum(sizes))
    arms = np.vstack([cell_sums(first, cells), draws])
    # The other arm's gaps are the same with the opposite sign: a constant factor, left out.
    statistics = np.sum((arms - expected) ** 2 / expected, axis=1)
    return _permutation_test(statistics * (sum(sizes) / sizes[1]), sizes)


def match_test(
    first: Any, second: Any, rng: np.random.Generator, *, replicates: int = 999
) -> TwoSampleTest:
    """Maximum mean discrepancy with the kernel "tokens until the first difference".

    For single tokens this is the unbiased squared L2 distance between the laws (exact-match
    kernel). For sequences the kernel counts the common prefix, so that every position is compared
    given the same tokens before it.

    Args:
        first: Token ids of one arm, int shape ``(n,)`` or ``(n, length)``.
        second: Token ids of the other arm, ``(m,)`` or ``(m, length)``.
        rng: Source of the permutations.
        replicates: Number of permutations.

    Returns:
        The test; p-value 1 if an arm has fewer than two observations.

    Raises:
        InvalidInputError: If the shapes do not fit or ``rng`` is no generator.

    References:
        Gretton et al. (2012), JMLR 13, lemma 6; Gao, Liang and Guestrin (2024), arXiv:2410.20247.
    """
    check_rng(rng)
    one, other = np.asarray(first, dtype=np.int64), np.asarray(second, dtype=np.int64)
    if one.shape[1:] != other.shape[1:] or one.ndim not in (1, 2):
        raise InvalidInputError("second", f"shape {other.shape} does not fit first's {one.shape}")
    sizes = len(one), len(other)
    if min(sizes) < 2:
        return TwoSampleTest(0.0, 1.0, sizes)
    groups = _prefix_groups(np.concatenate([one, other]).reshape(sum(sizes), -1))
    totals = np.bincount(groups.ravel())
    labels = np.arange(sum(sizes))
    statistics = np.empty(replicates + 1)
    for index in range(replicates + 1):
        arm = np.bincount(groups[labels[: sizes[0]]].ravel(), minlength=len(totals))
        statistics[index] = _squared_distance(arm, totals - arm, sizes)
        labels = rng.permutation(labels)
    return _permutation_test(statistics, sizes)


def swap_log_e(first: Any, second: Any) -> Floats:
    """Sequential evidence that two streams of tokens have different laws.

    Observations are paired in order. If the laws agree, a pair is as likely as its swap; the bet
    is on which way round it is, from what earlier batches have shown.

    Args:
        first: Token ids (or hashes of sequences) of one arm, int shape ``(n,)``.
        second: The same of the other arm; the longer one's tail is not used.

    Returns:
        Logarithm of the e-process after each pair, shape ``(min(n, m),)``: valid at any stopping
        time if pairs are independent.

    Raises:
        InvalidInputError: If an argument has more than one axis.

    References:
        Lhéritier and Cazals (2018), arXiv:1602.05307; Podkopaev and Ramdas (2023),
        arXiv:2305.00143, section 2.
    """
    one, other = np.asarray(first, dtype=np.int64), np.asarray(second, dtype=np.int64)
    if one.ndim != 1 or other.ndim != 1:
        raise InvalidInputError("first", f"needs one axis, got {one.shape} and {other.shape}")
    length = min(len(one), len(other))
    ids = np.unique(np.concatenate([one[:length], other[:length]]), return_inverse=True)[1]
    left, right = ids[:length], ids[length:]
    gains = np.zeros((length, len(_BOLDNESS)))
    start, batch = 0, _FIRST_BATCH
    while start < length:
        stop = min(start + batch, length)
        scores = _scores(left[:start], right[:start], int(ids.max()) + 1)
        margin = (scores[left[start:stop]] - scores[right[start:stop]])[:, None] * _BOLDNESS
        # 2 * sigmoid(margin): the swapped pair pays 2 * sigmoid(-margin), and they average to one.
        gains[start:stop] = np.log(2) - np.logaddexp(0.0, -margin)
        start, batch = stop, max(_FIRST_BATCH, stop // 4)
    wealth: Floats = logsumexp(np.cumsum(gains, axis=0), axis=1) - np.log(len(_BOLDNESS))
    return wealth


def _scores(left: Ints, right: Ints, size: int) -> Floats:
    """Log ratio of the two smoothed empirical laws; smoothing pulls rare tokens to no opinion."""
    one = np.bincount(left, minlength=size).astype(np.float64)
    other = np.bincount(right, minlength=size).astype(np.float64)
    return np.log1p(one) - np.log1p(other)


def _prefix_groups(sequences: Ints) -> Ints:
    """Distinct id of every prefix, numbered through all lengths, shape ``(n, length)``."""
    groups = np.empty_like(sequences)
    previous, offset = np.zeros(len(sequences), dtype=np.int64), 0
    for position in range(sequences.shape[1]):
        keys = np.stack([previous, sequences[:, position]], axis=1)
        previous = np.unique(keys, axis=0, return_inverse=True)[1].reshape(-1)
        groups[:, position] = previous + offset
        offset += int(previous.max()) + 1
    return groups


def _squared_distance(arm: Ints, other: Ints, sizes: tuple[int, int]) -> float:
    n, m = sizes
    within = np.sum(arm * (arm - 1)) / (n * (n - 1)) + np.sum(other * (other - 1)) / (m * (m - 1))
    return float(within - 2 * np.sum(arm * other) / (n * m))


def _permutation_test(statistics: Floats, sizes: tuple[int, int]) -> TwoSampleTest:
    """The observed statistic comes first, its permutations after it."""
    slack = 1e-12 * (abs(statistics[0]) + 1e-300)
    extreme = int(np.count_nonzero(statistics >= statistics[0] - slack))
    return TwoSampleTest(float(statistics[0]), extreme / len(statistics), sizes)
