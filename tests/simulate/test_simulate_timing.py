"""Timing models: moments of totals, resampling, and the roof that ends the free lunch."""

from __future__ import annotations

import numpy as np
import pytest

from specverify.errors import InvalidInputError
from specverify.simulate import timing as module
from specverify.simulate.acceptance import ConstantAcceptance
from specverify.simulate.policies import FixedGamma
from specverify.simulate.rounds import simulate_runs
from specverify.simulate.stopping import AtRounds
from specverify.simulate.timing import (
    ConstantTiming,
    JitterTiming,
    MeasuredTiming,
    RooflineTiming,
)
from specverify.theory.speedup import speculative_speedup

COUNTS = np.array([0, 1, 7, 1000])


def counts(value: int, size: int = 20_000):
    return np.full(size, value)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_constant_times() -> None:
    timing = ConstantTiming(0.5, 2.0)
    np.testing.assert_array_equal(timing.draft_times(rng(), COUNTS), COUNTS * 0.5)
    np.testing.assert_array_equal(timing.verify_times(rng(), COUNTS, COUNTS), COUNTS * 2.0)
    np.testing.assert_array_equal(timing.plain_times(rng(), COUNTS), COUNTS * 2.0)


@pytest.mark.parametrize("law", ["gamma", "lognormal"])
@pytest.mark.parametrize("steps", [1, 9])
def test_sums_of_jittered_times_have_the_right_moments(law, steps) -> None:
    timing = JitterTiming(0.5, 2.0, 0.3, law=law)
    for total, mean in (
        (timing.draft_times(rng(1), counts(steps)), 0.5),
        (timing.verify_times(rng(2), counts(steps), counts(4)), 2.0),
        (timing.plain_times(rng(3), counts(steps)), 2.0),
    ):
        sd = 0.3 * mean * np.sqrt(steps)
        assert abs(total.mean() - steps * mean) < 4.9 * sd / np.sqrt(len(total))
        assert total.std() == pytest.approx(sd, rel=0.05)
        # The negative control: steps that jitter together would have steps times the spread.
        assert steps == 1 or total.std() < 0.5 * 0.3 * mean * steps
    assert timing.draft_times(rng(), np.array([0]))[0] == 0


def test_measured_times_are_resampled() -> None:
    timing = MeasuredTiming([1.0, 3.0], [10.0])
    single = timing.draft_times(rng(), counts(1))
    assert set(single) == {1.0, 3.0}
    total = timing.draft_times(rng(), counts(5))
    assert abs(total.mean() - 10) < 4.9 * np.sqrt(5 / len(total))
    np.testing.assert_array_equal(timing.verify_times(rng(), COUNTS, COUNTS), COUNTS * 10.0)
    np.testing.assert_array_equal(timing.plain_times(rng(), COUNTS), COUNTS * 10.0)
    longer = MeasuredTiming([1.0], [10.0], verify_times=[12.0])
    np.testing.assert_array_equal(longer.verify_times(rng(), COUNTS, COUNTS), COUNTS * 12.0)
    np.testing.assert_array_equal(longer.plain_times(rng(), COUNTS), COUNTS * 10.0)


def test_a_pass_may_grow_with_its_block() -> None:
    gamma = np.array([1, 4, 9, 0])
    timing = ConstantTiming(0.5, 2.0, verify_slope=0.1)
    expected = COUNTS * 2.0 * (1 + 0.1 * gamma)
    np.testing.assert_allclose(timing.verify_times(rng(), COUNTS, gamma), expected)
    np.testing.assert_array_equal(timing.plain_times(rng(), COUNTS), COUNTS * 2.0)
    jitter = JitterTiming(0.5, 2.0, 0.1, verify_slope=0.1)
    total = jitter.verify_times(rng(), counts(9), counts(5))
    assert abs(total.mean() - 27.0) < 4.9 * total.std() / np.sqrt(len(total))


def test_long_sums_are_drawn_in_portions(monkeypatch) -> None:
    monkeypatch.setattr(module, "_DRAWS_AT_ONCE", 8)
    timing = MeasuredTiming([2.0], [10.0])
    np.testing.assert_array_equal(timing.draft_times(rng(), COUNTS), COUNTS * 2.0)


def test_verification_is_free_until_arithmetic_binds() -> None:
    gamma = np.array([1, 4, 9])
    ones = np.ones(3, dtype=np.int64)
    small = RooflineTiming(0.1, 1.0, 0.1, batch=2)
    np.testing.assert_allclose(small.verify_times(rng(), ones, gamma), [1.0, 1.0, 2.0])
    np.testing.assert_allclose(small.plain_times(rng(), ones), 1.0)
    large = RooflineTiming(0.1, 1.0, 0.1, batch=20)
    np.testing.assert_allclose(large.verify_times(rng(), ones, gamma), [4.0, 10.0, 20.0])
    np.testing.assert_allclose(large.plain_times(rng(), ones), 2.0)


def simulated_speedup(timing):
    result = simulate_runs(
        ConstantAcceptance(0.8),
        FixedGamma(4),
        timing,
        AtRounds(200),
        runs=500,
        generator=rng(4),
    )
    return result.speedup()


@pytest.mark.parametrize("batch", [1, 4, 16, 64])
def test_the_batch_kills_the_speedup_as_theory_says(batch) -> None:
    timing = RooflineTiming(0.1, 1.0, 0.05, batch=batch)
    plain = max(1.0, batch * 0.05)
    verify = max(1.0, batch * 5 * 0.05)
    exact = speculative_speedup(0.8, 4, 0.1 / plain, verify_cost=verify / plain)
    estimate = simulated_speedup(timing)
    assert abs(estimate.value - exact) < 4.9 * estimate.standard_error
    assert (exact > 1) == (batch < 16)


@pytest.mark.parametrize("law", ["gamma", "lognormal"])
def test_jitter_leaves_the_speedup_of_totals_alone(law) -> None:
    estimate = simulated_speedup(JitterTiming(0.1, 1.0, 0.5, law=law))
    exact = speculative_speedup(0.8, 4, 0.1)
    assert abs(estimate.value - exact) < 4.9 * estimate.standard_error
    assert abs(estimate.value - speculative_speedup(0.8, 4, 0.12)) > 4.9 * estimate.standard_error


def test_free_drafts() -> None:
    estimate = simulated_speedup(ConstantTiming(0.0, 1.0))
    exact = speculative_speedup(0.8, 4, 0.0)
    assert abs(estimate.value - exact) < 4.9 * estimate.standard_error


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ConstantTiming(-1, 1), "draft_time: must be finite and at least 0, got -1"),
        (lambda: ConstantTiming(1, 0), "target_time: must be finite and above 0, got 0"),
        (lambda: JitterTiming(1, 1, 0.0), "variation: must be finite and above 0, got 0.0"),
        (lambda: JitterTiming(1, 1, 0.1, law="normal"), "law: must be 'gamma' or 'lognormal'"),
        (lambda: MeasuredTiming([], [1.0]), "draft_times: needs at least one measured time"),
        (lambda: MeasuredTiming([1.0], [np.nan]), "target_times: must be finite.* got nan"),
        (lambda: RooflineTiming(0, 1, 0, batch=0), "batch: must be at least 1, got 0"),
        (lambda: RooflineTiming(0, 0, 0), "weights_time: must be finite and above 0, got 0"),
        (lambda: RooflineTiming(0, 1, -1), "token_time: must be finite and at least 0, got -1"),
    ],
)
def test_bad_arguments_are_named(call, message) -> None:
    with pytest.raises(InvalidInputError, match=message):
        call()
