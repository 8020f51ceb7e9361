"""Observations that each method needs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from specverify.bugs import CONTROLS, ZOO
from specverify.selftest.effort import efforts, fixed_n, large_vocab_median
from specverify.selftest.settings import LEVEL

RIGHT, WRONG = np.array([0.5, 0.3, 0.2]), np.array([0.4, 0.3, 0.3])


def test_fixed_n_has_the_power_that_it_says() -> None:
    n = fixed_n(RIGHT, WRONG)
    rng = np.random.default_rng(0)
    counts = rng.multinomial(int(n), WRONG, size=4000)
    statistics = ((counts - n * RIGHT) ** 2 / (n * RIGHT)).sum(axis=1)
    power = float(np.mean(statistics > stats.chi2.isf(LEVEL, 2)))
    # Standard error .0047; the noncentral law is an approximation, good to a point or two.
    assert power == pytest.approx(0.9, abs=0.03)


def test_an_excluded_outcome_ends_the_wait() -> None:
    n = fixed_n(np.array([0.5, 0.5, 0.0]), np.array([0.4, 0.4, 0.2]))
    assert n == math.ceil(math.log(0.1) / math.log(0.8))
    assert fixed_n(np.array([1.0, 0.0]), np.array([0.0, 1.0])) == 1


def test_the_e_process_needs_little_more_than_the_oracle() -> None:
    for name in ("abs_residual", "argmax_draft", "shared_offset", "draft_in_float16"):
        found = efforts(ZOO[name], np.random.default_rng(1), runs=9)
        assert 0.5 * found.oracle < found.median < 3 * found.oracle, name
        assert found.oracle < found.fixed_n


@pytest.mark.parametrize("name", ["seed_ignored", "untested_counted", "stale_draft_cache"])
def test_where_the_law_is_blind_there_is_no_effort(name) -> None:
    assert efforts(ZOO[name], np.random.default_rng(0), runs=1) is None
    assert efforts(CONTROLS["no_bonus"], np.random.default_rng(0), runs=1) is None


def test_a_large_vocabulary() -> None:
    rng = np.random.default_rng(2)
    median = large_vocab_median(ZOO["abs_residual"], rng, vocab_size=512, runs=3)
    assert 10 < median < 10_000
    assert large_vocab_median(ZOO["shared_uniform"], rng, vocab_size=512, runs=3) is None
