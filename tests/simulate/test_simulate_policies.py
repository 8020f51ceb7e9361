"""Draft lengths: schedules by hand, thresholds by hand, and optimal stopping against theory."""

from __future__ import annotations

import numpy as np
import pytest

from specverify.errors import InvalidInputError
from specverify.simulate.acceptance import BetaAcceptance, ConstantAcceptance
from specverify.simulate.policies import FixedGamma, ReachGamma, ScheduledGamma, ThresholdGamma
from specverify.simulate.rounds import simulate_runs
from specverify.simulate.stopping import AtRounds
from specverify.simulate.timing import ConstantTiming
from specverify.theory.expected_tokens import expected_accepted_tokens
from specverify.theory.optimal_gamma import optimal_gamma
from specverify.theory.speedup import speculative_speedup

NOTHING = np.zeros(1, dtype=np.int64)
C = 0.1


def speedup(process, policy, *, runs=2000, rounds=50, seed=0):
    result = simulate_runs(
        process,
        policy,
        ConstantTiming(C, 1.0),
        AtRounds(rounds),
        runs=runs,
        generator=np.random.default_rng(seed),
    )
    return result.speedup()


def test_schedule_by_hand() -> None:
    policy = ScheduledGamma(initial=2, up=2, down=1, max_gamma=5)
    memory = policy.start(1)
    history = []
    for accepted in (2, 4, 5, 3, 0, 0, 0, 0):
        gamma = policy.choose(memory, np.ones((1, 5)))
        history.append(int(gamma[0]))
        memory = policy.update(memory, np.array([accepted]))
    assert history == [2, 4, 5, 5, 4, 3, 2, 1]
    assert policy.choose(memory, np.ones((1, 5)))[0] == 1


def test_certain_acceptance_walks_up_to_the_cap() -> None:
    result = simulate_runs(
        ConstantAcceptance(1.0),
        ScheduledGamma(initial=1, up=2, max_gamma=6),
        ConstantTiming(C, 1.0),
        AtRounds(5),
        runs=1,
        generator=np.random.default_rng(0),
    )
    assert result.drafted[0] == 1 + 3 + 5 + 6 + 6


def test_threshold_by_hand() -> None:
    alphas = np.array([[0.9, 0.8, 0.3, 0.9], [0.1, 0.9, 0.9, 0.9], [0.9, 0.9, 0.9, 0.9]])
    gamma = ThresholdGamma(0.5, max_gamma=4).choose(np.zeros(3, dtype=np.int64), alphas)
    np.testing.assert_array_equal(gamma, [3, 1, 4])


def test_reach_by_hand() -> None:
    alphas = np.array([[0.9, 0.5, 0.5], [0.1, 1.0, 1.0], [1.0, 1.0, 1.0]])
    gamma = ReachGamma(0.3, max_gamma=3).choose(np.zeros(3, dtype=np.int64), alphas)
    np.testing.assert_array_equal(gamma, [2, 1, 3])


@pytest.mark.parametrize("alpha", [0.3, 0.6, 0.8, 0.9])
def test_optimal_stopping_of_a_constant_alpha_is_the_optimal_gamma(alpha) -> None:
    best = optimal_gamma(alpha, C, max_gamma=30)
    reach = speculative_speedup(alpha, best, C) * C
    chosen = ReachGamma(reach, max_gamma=30).choose(NOTHING, np.full((1, 30), alpha))
    assert chosen[0] == best


def test_knowing_the_context_beats_every_fixed_length() -> None:
    process = BetaAcceptance(0.7, 1.0)
    fixed = [speedup(process, FixedGamma(gamma)).value for gamma in range(1, 13)]
    rate = max(fixed)
    for _ in range(4):  # policy iteration: the rate of the best policy sets its own threshold
        informed = speedup(process, ReachGamma(min(rate * C, 1.0), max_gamma=30))
        rate = informed.value
    assert informed.value > max(fixed) + 10 * informed.standard_error
    # The negative control: with nothing to know, knowing it wins nothing.
    dull = ConstantAcceptance(0.7)
    best = speculative_speedup(0.7, optimal_gamma(0.7, C), C)
    same = speedup(dull, ReachGamma(best * C))
    assert abs(same.value - best) < 4.9 * same.standard_error


def test_a_schedule_cannot_beat_the_optimum_of_a_constant_alpha() -> None:
    best = speculative_speedup(0.8, optimal_gamma(0.8, C), C)
    scheduled = speedup(ConstantAcceptance(0.8), ScheduledGamma())
    assert 1 < scheduled.value < best


def test_fixed_draft_length_round_by_round() -> None:
    """A threshold of 0 never stops early: it is the fixed length, drawn the slow way."""
    result = simulate_runs(
        ConstantAcceptance(0.8),
        ThresholdGamma(0.0, max_gamma=4),
        ConstantTiming(C, 1.0),
        AtRounds(100),
        runs=500,
        generator=np.random.default_rng(1),
    )
    estimate = result.tokens_per_pass()
    exact = expected_accepted_tokens(0.8, 4)
    assert abs(estimate.value - exact) < 4.9 * estimate.standard_error


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: FixedGamma(0), "gamma: must be at least 1, got 0"),
        (lambda: ScheduledGamma(initial=0), "initial: must be at least 1, got 0"),
        (lambda: ScheduledGamma(initial=9, max_gamma=5), "max_gamma: must be at least 9, got 5"),
        (lambda: ScheduledGamma(up=-1), "up: must be at least 0, got -1"),
        (lambda: ThresholdGamma(1.5), r"threshold: must lie in \[0, 1\], got 1.5"),
        (lambda: ReachGamma(float("nan")), "reach: .* got nan"),
        (lambda: ReachGamma(0.5, max_gamma=0), "max_gamma: must be at least 1, got 0"),
    ],
)
def test_bad_arguments_are_named(call, message) -> None:
    with pytest.raises(InvalidInputError, match=message):
        call()
