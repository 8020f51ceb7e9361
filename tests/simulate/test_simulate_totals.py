"""Totals drawn at once against the exact laws of theory, with a negative control beside each."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from specverify.errors import InvalidInputError
from specverify.simulate.totals import length_counts, stopped_runs
from specverify.theory.emitted_length import emitted_length_moments, emitted_length_pmf
from specverify.theory.stopped_decode import StoppedDecodeLaw, stopped_decode_law

ALARM = 1e-6


def p_value_of_runs(law: StoppedDecodeLaw, tokens, rounds) -> float:
    """Chi-square of the joint counts of (rounds, tokens); rare cells pooled in advance."""
    counts = np.zeros_like(law.joint)
    inside = rounds < len(counts)
    np.add.at(counts, (rounds[inside], tokens[inside] - law.total_tokens), 1)
    expected = law.joint * len(rounds)
    common = expected >= 10
    observed = np.append(counts[common], len(rounds) - counts[common].sum())
    wanted = np.append(expected[common], len(rounds) - expected[common].sum())
    keep = wanted > 0
    return float(stats.chisquare(observed[keep], wanted[keep], sum_check=False).pvalue)


@pytest.mark.parametrize("total_tokens", [1, 7, 40])
@pytest.mark.parametrize("bonus", [True, False])
def test_stopped_runs_have_the_exact_joint_law(total_tokens, bonus) -> None:
    pmf = emitted_length_pmf([0.9, 0.6, 0.7], bonus=bonus)
    law = stopped_decode_law(pmf, total_tokens)
    tokens, rounds = stopped_runs(pmf, total_tokens, 50_000, np.random.default_rng(1))
    assert np.all((tokens >= total_tokens) & (tokens < total_tokens + len(pmf)))
    assert p_value_of_runs(law, tokens, rounds) > ALARM


def test_the_wrong_law_is_refused() -> None:
    """The negative control: one per cent off in a single alpha."""
    pmf = emitted_length_pmf([0.9, 0.61, 0.7])
    tokens, rounds = stopped_runs(pmf, 40, 50_000, np.random.default_rng(1))
    law = stopped_decode_law(emitted_length_pmf([0.9, 0.6, 0.7]), 40)
    assert p_value_of_runs(law, tokens, rounds) < ALARM


def z_of_mean(counts, pmf) -> float:
    rounds = counts.sum()
    mean, variance = emitted_length_moments(pmf)
    return float((counts @ np.arange(1, len(pmf) + 1) / rounds - mean) / np.sqrt(variance / rounds))


def test_a_billion_rounds_are_one_draw() -> None:
    pmf = emitted_length_pmf(0.8, 4)
    counts = length_counts(pmf, 10**9, np.random.default_rng(2))
    assert counts.sum() == 10**9
    assert abs(z_of_mean(counts, pmf)) < 4.9  # two-sided 1e-6
    off = emitted_length_pmf(0.8001, 4)
    assert abs(z_of_mean(counts, off)) > 4.9


def test_seeded_and_degenerate() -> None:
    pmf = emitted_length_pmf(0.7, 3)
    first, second = (stopped_runs(pmf, 50, 20, np.random.default_rng(3)) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    tokens, rounds = stopped_runs([0.0, 1.0], 7, 3, np.random.default_rng(0))
    np.testing.assert_array_equal(tokens, [8, 8, 8])
    np.testing.assert_array_equal(rounds, [4, 4, 4])
    np.testing.assert_array_equal(length_counts([0.5, 0.5], 0, np.random.default_rng(0)), [0, 0])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda rng: length_counts([0.5, 0.6], 1, rng), "length_pmf: must sum to one"),
        (lambda rng: length_counts([1.0], -1, rng), "rounds: must be at least 0, got -1"),
        (lambda rng: stopped_runs([1.0], 0, 1, rng), "total_tokens: must be at least 1, got 0"),
        (lambda rng: stopped_runs([1.0], 1, 0, rng), "runs: must be at least 1, got 0"),
        (lambda rng: stopped_runs([], 1, 1, rng), "length_pmf: must be one non-empty row"),
    ],
)
def test_bad_arguments_are_named(call, message) -> None:
    with pytest.raises(InvalidInputError, match=message):
        call(np.random.default_rng(0))
