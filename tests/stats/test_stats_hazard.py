"""Acceptance: valid where alpha varies, with power where the rule is broken."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from specverify.errors import InvalidInputError
from specverify.stats.hazard import acceptance_log_e, acceptance_test
from specverify.stats.intervals import clopper_pearson


def test_counts_and_statistic_by_hand() -> None:
    test = acceptance_test([True, True, False, True], [0.5, 0.5, 0.5, 0.5])
    assert (test.tested, test.accepted, test.expected) == (4, 3, 2.0)
    assert test.statistic == pytest.approx(1.0)
    assert test.p_value == pytest.approx(0.3173, abs=1e-4)


def test_level_holds_where_alpha_varies_and_a_shift_is_seen() -> None:
    rng = np.random.default_rng(0)
    alarms = {0.0: 0, 0.03: 0}
    for shift in alarms:
        for _ in range(2000):
            chances = rng.beta(8, 2, size=2000)
            flags = rng.random(2000) < np.maximum(chances - shift, 0)
            alarms[shift] += acceptance_test(flags, chances).p_value <= 1e-2
    low, high = clopper_pearson(alarms[0.0], 2000, confidence=1 - 1e-6)
    assert low <= 0.01 <= high
    assert alarms[0.03] > 1500


def test_expected_e_is_one_exactly() -> None:
    chances = np.array([0.3, 0.9, 1.0, 0.0, 0.5])
    total = 0.0
    for flags in itertools.product([0, 1], repeat=5):
        probability = np.prod(np.where(flags, chances, 1 - chances))
        if probability > 0:
            total += probability * np.exp(acceptance_log_e(flags, chances))
    assert total == pytest.approx(1.0, abs=1e-12)


def test_impossible_decisions_are_proofs() -> None:
    for flags, chances in [([True], [0.0]), ([False], [1.0])]:
        assert acceptance_test(flags, chances).p_value == 0.0
        assert acceptance_log_e(flags, chances) == float("inf")


def test_e_process_watched_all_the_time_keeps_its_level_and_finds_a_shift() -> None:
    rng = np.random.default_rng(1)
    hits = {0.0: 0, 0.15: 0}
    for shift in hits:
        for _ in range(150):
            chances = rng.uniform(0.6, 0.95, size=400)
            flags = rng.random(400) < chances - shift
            watched = max(acceptance_log_e(flags[:n], chances[:n]) for n in range(20, 401, 20))
            hits[shift] += watched >= np.log(20)
    assert clopper_pearson(hits[0.0], 150, confidence=1 - 1e-6)[0] <= 0.05
    assert hits[0.15] > 140


def test_nothing_tested() -> None:
    assert acceptance_test([], []).p_value == 1.0
    assert acceptance_log_e([], []) == pytest.approx(0.0)
    assert acceptance_test([True], [1.0]).p_value == 1.0


def test_refusals() -> None:
    with pytest.raises(InvalidInputError, match=r"^probabilities"):
        acceptance_test([True], [0.5, 0.5])
    with pytest.raises(InvalidInputError, match=r"^probabilities"):
        acceptance_test([True], [1.5])
    with pytest.raises(InvalidInputError, match=r"^accepted"):
        acceptance_test([2], [0.5])
