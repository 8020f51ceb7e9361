"""The simulator against the exact laws of theory; in bulk and round by round alike."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

from specverify.errors import InvalidInputError
from specverify.simulate.acceptance import (
    BetaAcceptance,
    ConstantAcceptance,
    PositionAcceptance,
    TraceAcceptance,
)
from specverify.simulate.markov import MarkovAcceptance
from specverify.simulate.policies import FixedGamma
from specverify.simulate.rounds import simulate_runs
from specverify.simulate.stopping import AtEos, AtRounds, AtTokens
from specverify.simulate.timing import ConstantTiming, JitterTiming
from specverify.theory.emitted_length import emitted_length_pmf
from specverify.theory.expected_tokens import expected_accepted_tokens
from specverify.theory.speedup import speculative_speedup
from specverify.theory.stopped_decode import StoppedDecodeLaw, stopped_decode_law

ALARM = 1e-6
TIMING = ConstantTiming(0.1, 1.0)


class OneByOne:
    """A process stripped of its bulk counting, so that every round is drawn."""

    def __init__(self, process) -> None:
        self.start, self.next_round = process.start, process.next_round


def run(process, gamma=4, *, stop, runs, seed=0, **changes):
    rng = np.random.default_rng(seed)
    return simulate_runs(
        process, FixedGamma(gamma), TIMING, stop, runs=runs, generator=rng, **changes
    )


def p_value_of_runs(law: StoppedDecodeLaw, result) -> float:
    """Chi-square of the joint counts of (rounds, tokens); rare cells pooled in advance."""
    counts = np.zeros_like(law.joint)
    inside = result.rounds < len(counts)
    overshoot = result.emitted[inside] - law.total_tokens
    np.add.at(counts, (result.rounds[inside], overshoot), 1)
    expected = law.joint * len(result.rounds)
    common = expected >= 10
    observed = np.append(counts[common], len(result.rounds) - counts[common].sum())
    wanted = np.append(expected[common], len(result.rounds) - expected[common].sum())
    keep = wanted > 1e-9
    assert observed[~keep].sum() == 0
    return float(stats.chisquare(observed[keep], wanted[keep], sum_check=False).pvalue)


@pytest.mark.parametrize("dress", [lambda process: process, OneByOne], ids=["bulk", "rounds"])
@pytest.mark.parametrize("bonus", [True, False])
@pytest.mark.parametrize("tokens", [1, 30])
def test_runs_have_the_exact_joint_law(tokens, bonus, dress) -> None:
    alphas = (0.9, 0.6, 0.7)
    law = stopped_decode_law(emitted_length_pmf(alphas, bonus=bonus), tokens)
    process = dress(PositionAcceptance(alphas))
    result = run(process, 3, stop=AtTokens(tokens), runs=30_000, bonus=bonus)
    assert p_value_of_runs(law, result) > ALARM


@pytest.mark.parametrize("dress", [lambda process: process, OneByOne], ids=["bulk", "rounds"])
def test_the_wrong_law_is_refused(dress) -> None:
    """The negative control: two per cent off in one alpha."""
    law = stopped_decode_law(emitted_length_pmf((0.9, 0.6, 0.7)), 30)
    process = dress(PositionAcceptance((0.9, 0.62, 0.7)))
    assert p_value_of_runs(law, run(process, 3, stop=AtTokens(30), runs=30_000)) < ALARM


GRID = list(
    itertools.product(np.linspace(0.05, 0.95, 10), (2, 3, 4, 6, 8), (True, False), (0.05, 0.3))
)


def distances(index: int, alpha: float, gamma: int, bonus: bool, c: float):
    """Simulated tokens/pass and speedup from theory's, and from those of the other bonus rule."""
    result = simulate_runs(
        ConstantAcceptance(alpha),
        FixedGamma(gamma),
        JitterTiming(c, 1.0, 0.2),
        AtRounds(100),
        runs=1000,
        generator=np.random.default_rng(index),
        bonus=bonus,
    )
    tokens, speedup = result.tokens_per_pass(), result.speedup()
    return [
        (
            (tokens.value - expected_accepted_tokens(alpha, gamma, bonus=rule))
            / tokens.standard_error,
            (speedup.value - speculative_speedup(alpha, gamma, c, bonus=rule))
            / speedup.standard_error,
        )
        for rule in (bonus, not bonus)
    ]


def test_a_grid_of_200_settings_agrees_with_every_closed_form() -> None:
    """400 distances below 4 standard errors at this seed, as .975 of the seeds would have it."""
    found = np.array([distances(index, *setting) for index, setting in enumerate(GRID)])
    assert found.shape == (200, 2, 2)
    right, wrong = np.abs(found[:, 0]), np.abs(found[:, 1])
    assert right.max() < 4
    assert found[:, 0].std(axis=0) == pytest.approx([1, 1], abs=0.25)
    # The negative control. A bonus that is earned once in a million rounds cannot be seen.
    visible = [alpha**gamma > 0.1 for alpha, gamma, _, _ in GRID]
    assert np.all(wrong[visible] > 6.1)


TWO_STATES = MarkovAcceptance([0.9, 0.3], [[0.95, 0.05], [0.1, 0.9]])
THREE_STATES = MarkovAcceptance(
    [0.9, 0.5, 0.1], [[0.8, 0.2, 0.0], [0.1, 0.6, 0.3], [0.5, 0.0, 0.5]]
)


@pytest.mark.parametrize("process", [TWO_STATES, THREE_STATES], ids=["two", "three"])
@pytest.mark.parametrize("stop", [AtTokens(60), AtRounds(25)], ids=["tokens", "rounds"])
def test_bulk_equals_round_by_round_for_hidden_states(process, stop) -> None:
    bulk = run(process, stop=stop, runs=20_000, seed=1)
    single = run(OneByOne(process), stop=stop, runs=20_000, seed=2)
    for name in ("emitted", "rounds", "accepted", "tested"):
        first, second = getattr(bulk, name), getattr(single, name)
        # Of two constants too: 1 where they are equal, 0 where they are not.
        assert stats.ks_2samp(first, second).pvalue > ALARM, name


def test_forgetting_the_hidden_state_would_be_seen() -> None:
    """The negative control: the stationary mixture round by round has too little spread."""
    stop = AtRounds(25)
    mixed = MarkovAcceptance([0.9, 0.3], np.tile(TWO_STATES.stationary, (2, 1)))
    chain, mixture = (run(process, stop=stop, runs=20_000) for process in (TWO_STATES, mixed))
    assert stats.ks_2samp(chain.emitted, mixture.emitted).pvalue < ALARM
    assert chain.emitted.var() > 2 * mixture.emitted.var()


def distance(estimate, exact: float) -> float:
    return abs(estimate.value - exact) / estimate.standard_error


def test_hidden_states_have_the_stationary_mean() -> None:
    np.testing.assert_allclose(TWO_STATES.stationary, [2 / 3, 1 / 3])
    exact = TWO_STATES.stationary @ expected_accepted_tokens(TWO_STATES.alphas, 4)
    assert distance(run(TWO_STATES, stop=AtRounds(200), runs=2000).tokens_per_pass(), exact) < 4.9
    pooled = expected_accepted_tokens(float(TWO_STATES.stationary @ TWO_STATES.alphas), 4)
    assert exact > pooled + 0.3


@pytest.mark.parametrize("dress", [lambda process: process, OneByOne], ids=["bulk", "rounds"])
def test_beta_contexts_have_heavier_tails(dress) -> None:
    process = BetaAcceptance(0.7, 2.0)
    np.testing.assert_allclose(process.position_alphas(3), [0.7, 2.4 / 3, 3.4 / 4])
    result = run(dress(process), stop=AtRounds(100), runs=1000)
    pmf = emitted_length_pmf(process.position_alphas(4))
    assert distance(result.tokens_per_pass(), pmf @ np.arange(1, 6)) < 4.9
    assert distance(result.tokens_per_pass(), expected_accepted_tokens(0.7, 4)) > 4.9


def test_beta_tokens_are_a_constant_alpha_in_law() -> None:
    process = OneByOne(BetaAcceptance(0.7, 2.0, per_token=True))
    result = run(process, stop=AtRounds(100), runs=1000)
    assert distance(result.tokens_per_pass(), expected_accepted_tokens(0.7, 4)) < 4.9


def test_traces_are_replayed_in_order() -> None:
    outcomes = [[1, 1], [1, 0], [0, 0]]
    result = run(TraceAcceptance(outcomes), 2, stop=AtRounds(3), runs=20)
    np.testing.assert_array_equal(result.emitted, 6)  # 3 + 2 + 1, from wherever a run begins
    np.testing.assert_array_equal(result.tested, 2 + 2 + 1)
    np.testing.assert_array_equal(result.accepted, 3)
    one_round = run(TraceAcceptance(outcomes), 2, stop=AtRounds(1), runs=300)
    assert set(one_round.emitted) == {1, 2, 3}


def test_a_record_of_counts_is_replayed() -> None:
    result = run(TraceAcceptance.of_counts([2, 0, 1], 2), 2, stop=AtRounds(3), runs=5)
    np.testing.assert_array_equal(result.accepted, 3)
    with pytest.raises(InvalidInputError, match=r"accepted: must lie in 0..2, got \[3\]"):
        TraceAcceptance.of_counts([3], 2)


def test_the_three_acceptance_rates() -> None:
    result = run(ConstantAcceptance(0.7), stop=AtRounds(1000), runs=100)
    assert distance(result.acceptance(), 0.7) < 4.9
    drafted = (expected_accepted_tokens(0.7, 4) - 1) / 4
    assert distance(result.accepted_over_drafted(), drafted) < 4.9
    assert distance(result.accepted_over_drafted(), 0.7) > 4.9
    np.testing.assert_array_equal(result.drafted, 4 * result.rounds)


def test_eos_ends_runs_and_its_tail_is_not_delivered() -> None:
    result = run(ConstantAcceptance(0.8), stop=AtEos(0.02, 100), runs=20_000)
    assert result.delivered.max() == 100
    assert np.all((result.emitted >= result.delivered) & (result.emitted < result.delivered + 5))
    mean = (1 - 0.98**100) / 0.02
    error = result.delivered.std() / np.sqrt(20_000)
    assert abs(result.delivered.mean() - mean) / error < 4.9
    np.testing.assert_allclose(result.plain_time, result.delivered)


def test_ratio_of_sums_is_unbiased_where_the_mean_ratio_is_not() -> None:
    result = run(ConstantAcceptance(0.8), stop=AtTokens(20), runs=50_000)
    exact = expected_accepted_tokens(0.8, 4)
    assert distance(result.tokens_per_pass(), exact) < 4.9
    ratios = result.emitted / result.rounds
    assert (ratios.mean() - exact) / (ratios.std() / np.sqrt(50_000)) > 4.9


def test_prefill_is_paid_once_and_by_both() -> None:
    plain = run(ConstantAcceptance(1.0), stop=AtTokens(10), runs=2)
    late = run(
        ConstantAcceptance(1.0), stop=AtTokens(10), runs=2, target_prefill=3.0, draft_prefill=0.5
    )
    np.testing.assert_allclose(late.speculative_time - plain.speculative_time, 3.5)
    np.testing.assert_allclose(late.plain_time - plain.plain_time, 3.0)


def test_drafting_ahead_hides_behind_verification() -> None:
    certain = run(ConstantAcceptance(1.0), stop=AtRounds(10), runs=2, overlap=True)
    np.testing.assert_allclose(certain.speculative_time, 0.4 + 10 * 1.0)
    hopeless = run(ConstantAcceptance(0.0), stop=AtRounds(10), runs=2, overlap=True)
    np.testing.assert_allclose(hopeless.speculative_time, 10 * 1.4)
    slow_draft = simulate_runs(
        ConstantAcceptance(1.0),
        FixedGamma(4),
        ConstantTiming(0.5, 1.0),
        AtRounds(10),
        runs=2,
        generator=np.random.default_rng(0),
        overlap=True,
    )
    np.testing.assert_allclose(slow_draft.speculative_time, (2.0 + 1.0) + 9 * (1.0 + 1.0))


def test_a_billion_rounds_and_a_trillion_tokens() -> None:
    result = run(ConstantAcceptance(0.8), stop=AtRounds(10**9), runs=10)
    assert distance(result.tokens_per_pass(), expected_accepted_tokens(0.8, 4)) < 5.5
    long = run(ConstantAcceptance(0.8), stop=AtTokens(10**12), runs=2)
    assert np.all((long.emitted >= 10**12) & (long.emitted < 10**12 + 5))


def test_quantiles_and_single_runs() -> None:
    result = run(ConstantAcceptance(0.8), stop=AtTokens(50), runs=500)
    low, middle, high = result.latency_quantiles([0.05, 0.5, 0.95])
    assert low < middle < high
    np.testing.assert_allclose(result.time_quantiles([0.5]), middle * 50)
    np.testing.assert_allclose(result.run_speedup_quantiles([0.5]), 1 / middle)
    assert run(ConstantAcceptance(0.8), stop=AtTokens(50), runs=1).speedup().standard_error is None


def test_seeded() -> None:
    first, second = (run(TWO_STATES, stop=AtTokens(50), runs=10, seed=5) for _ in range(2))
    np.testing.assert_array_equal(first.speculative_time, second.speculative_time)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ConstantAcceptance(1.5), r"alpha: must lie in \[0, 1\], got 1.5"),
        (lambda: PositionAcceptance(()), "alphas: must be one non-empty row"),
        (lambda: BetaAcceptance(1.0, 2.0), r"mean: must lie strictly in \(0, 1\), got 1.0"),
        (lambda: BetaAcceptance(0.5, 0.0), "concentration: must be finite and above 0, got 0.0"),
        (lambda: TraceAcceptance([]), "rounds: must have shape"),
        (lambda: TraceAcceptance([[2.0]]), r"rounds: must lie in \[0, 1\], got 2.0"),
        (lambda: MarkovAcceptance([0.5], [[0.5, 0.5]]), "transition: shape"),
        (lambda: MarkovAcceptance([0.5], [[0.9]]), "transition: a row does not sum to one"),
        (
            lambda: MarkovAcceptance([0.5, 0.6], np.eye(2)),
            "transition: has more than one stationary law",
        ),
        (
            lambda: run(PositionAcceptance((0.5,)), 2, stop=AtRounds(1), runs=1),
            "alphas: has 1 positions, but 2 may be drafted",
        ),
        (
            lambda: run(TraceAcceptance([[0.5]]), 2, stop=AtRounds(1), runs=1),
            "rounds: records 1 tokens, 2 may be drafted",
        ),
        (lambda: AtTokens(0), "tokens: must be at least 1, got 0"),
        (lambda: AtRounds(0), "rounds: must be at least 1, got 0"),
        (lambda: AtEos(0.0, 5), r"hazard: must lie in \(0, 1\], got 0.0"),
        (lambda: AtEos(0.5, 0), "max_tokens: must be at least 1, got 0"),
        (
            lambda: run(ConstantAcceptance(0.5), stop=AtRounds(1), runs=0),
            "runs: must be at least 1, got 0",
        ),
        (
            lambda: run(ConstantAcceptance(0.5), stop=AtRounds(1), runs=1, target_prefill=-1),
            "target_prefill: must be finite and at least 0, got -1",
        ),
    ],
)
def test_bad_arguments_are_named(call, message) -> None:
    with pytest.raises(InvalidInputError, match=message):
        call()
