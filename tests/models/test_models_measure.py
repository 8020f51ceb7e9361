"""Measuring a pair: counts against theory, on a clock of our own; no real time is asserted."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest

from specverify.errors import InvalidInputError
from specverify.models.acceptance_profile import by_context, by_position
from specverify.models.attribution import Totals, attribute, to_blame
from specverify.models.costs import Costs, Extras, measure_cost_table, measure_costs
from specverify.models.measure import measure_pair
from specverify.models.pairs import Pair, load_pair
from specverify.sampler.trace import BlockTrace, DecodeTrace
from specverify.theory.expected_tokens import expected_accepted_tokens
from specverify.warping import SamplingParams

PROMPTS = [[10, 20, 30], [5, 6], [7]]


@pytest.fixture(scope="module")
def pair() -> Pair:
    return load_pair()


@pytest.fixture(scope="module")
def measurement(pair):
    return measure_pair(pair, gamma=3, prompts=PROMPTS, max_new_tokens=40, rounds=2, seed=4)


def test_tokens_a_pass_follow_the_known_acceptance(measurement) -> None:
    """At this seed; the bounds hold 95 % of the runs of a correct decoder."""
    assert measurement.as_predicted
    assert 1 < measurement.predicted_tokens_per_pass.value < 4
    assert measurement.tokens_per_pass.low <= measurement.tokens_per_pass.value
    assert measurement.iid_tokens_per_pass == expected_accepted_tokens(measurement.alpha, 3)


def test_a_decoder_that_accepts_too_much_is_seen(pair, monkeypatch) -> None:
    """Negative control: claimed rates that are too low by a factor are not as predicted."""
    original = BlockTrace.__init__

    def shrunk(self, proposed, n_accepted, emitted, kept, acceptance_rates=()):
        rates = tuple(0.6 * rate for rate in acceptance_rates)
        original(self, proposed, n_accepted, emitted, kept, rates)

    monkeypatch.setattr(BlockTrace, "__init__", shrunk)
    wrong = measure_pair(pair, gamma=3, prompts=PROMPTS, max_new_tokens=40, rounds=2, seed=4)
    assert not wrong.as_predicted


def test_the_seed_decides_what_is_counted(pair, measurement) -> None:
    again = measure_pair(pair, gamma=3, prompts=PROMPTS, max_new_tokens=40, rounds=2, seed=4)
    assert again.tokens_per_pass == measurement.tokens_per_pass
    assert (again.alpha, again.passes) == (measurement.alpha, measurement.passes)


def test_the_terms_multiply_to_the_measured_speedup(measurement) -> None:
    product = np.prod([term.factor for term in measurement.terms])
    assert product == pytest.approx(measurement.speedup.value, rel=1e-9)
    factors = {term.name: term.factor for term in measurement.terms}
    assert factors["formula"] * factors["heterogeneity"] == pytest.approx(
        measurement.predicted_speedup
    )
    assert to_blame(measurement.terms).name not in ("formula", "heterogeneity")


def test_a_slow_loop_is_blamed_on_the_loop() -> None:
    """Terms of invented totals, by hand; and the loop twice as slow."""
    costs = Costs(target_step=1.0, target_block=1.0, draft_step=0.1)
    extras = Extras(
        target_prompt=1.0, target_prompt_block=1.0, draft_prompt=0.1, draft_two=0.1
    )  # no call costs more than a usual one
    for slow in (1.0, 2.0):
        totals = Totals(
            tokens=30, passes=10, drafted=40, full=5, plain=30.0, speculative=slow * 14.0
        )
        terms = attribute(totals, costs, extras, gamma=4, tokens_per_pass=(3.3, 3.0, 3.0))
        factors = {term.name: term.factor for term in terms}
        assert factors == pytest.approx(
            {
                "formula": 3.3 / 1.4,
                "heterogeneity": 3.0 / 3.3,
                "chance": 1.0,
                "last passes": 1.0,
                "prompt": 1.0,
                "cache": 1.0,
                "plain overhead": 1.0,
                "speculative overhead": 1 / slow,
            }
        )
        assert slow == 1 or to_blame(terms).name == "speculative overhead"


def test_acceptance_has_bounds_and_a_profile(measurement) -> None:
    bounds = measurement.alpha_bounds
    assert bounds.low < bounds.value == measurement.alpha < bounds.high
    assert len(measurement.alpha_by_position) == 3
    assert len(measurement.alpha_by_context) == 4
    for rate in (*measurement.alpha_by_position, *measurement.alpha_by_context):
        assert 0 < rate.value < 1
        assert rate.low <= rate.value <= rate.high


def test_the_profile_of_known_traces() -> None:
    """Two prompts: tested are those up to the first rejection, quarters go by kept tokens."""
    first = DecodeTrace(
        (
            BlockTrace((1, 2), 2, (1, 2, 3), 3, (0.9, 0.8)),
            BlockTrace((1, 2), 0, (4,), 1, (0.3, 0.99)),
        )
    )
    second = DecodeTrace(
        (
            BlockTrace((1, 2), 1, (1, 4), 2, (0.7, 0.4)),
            BlockTrace((1, 2), 1, (1, 4), 2, (0.5, 0.2)),
        )
    )
    place = by_position([[first], [second]], 2)
    assert [rate.value for rate in place] == pytest.approx(
        [(0.9 + 0.3 + 0.7 + 0.5) / 4, (0.8 + 0.4 + 0.2) / 3]
    )
    quarter = by_context([[first], [second]])
    assert [rate.value for rate in quarter] == pytest.approx(
        [(0.9 + 0.7) / 2, (0.8 + 0.4) / 2, 0.5, (0.3 + 0.2) / 2]
    )


def test_costs_by_draft_length_and_batch(pair) -> None:
    ticks = itertools.count()
    rows = measure_cost_table(pair, gammas=(1, 3), batches=(1, 2), clock=lambda: float(next(ticks)))
    assert [(row["batch"], row["gamma"]) for row in rows] == [(1, 1), (1, 3), (2, 1), (2, 3)]
    assert [row["c"] for row in rows] == pytest.approx([1, 1 / 3, 1, 1 / 3])
    assert {row["verify_cost"] for row in rows} == {1.0}


def test_times_come_from_the_clock_alone(pair) -> None:
    """A clock that ticks once a reading makes every call cost one: all ratios are known."""
    ticks = itertools.count()
    result = measure_pair(
        pair,
        gamma=2,
        prompts=PROMPTS,
        max_new_tokens=8,
        rounds=1,
        clock=lambda: float(next(ticks)),
    )
    assert (result.costs.draft_ratio, result.costs.verify_ratio) == (0.5, 1.0)
    assert result.speedup == (1.0, 1.0, 1.0)
    assert result.predicted_speedup_bounds.high > result.predicted_speedup
    assert result.plain_seconds == result.speculative_seconds == 1 / 8
    assert result.predicted_speedup == pytest.approx(result.predicted_tokens_per_pass.value / 2)


def test_greedy_decoding_is_measured_too(pair) -> None:
    greedy = measure_pair(
        pair,
        gamma=2,
        prompts=PROMPTS,
        max_new_tokens=8,
        rounds=1,
        sampling=SamplingParams(temperature=0.0),
    )
    assert greedy.as_predicted  # every alpha is 0 or 1, so the prediction has no slack
    assert greedy.predicted_tokens_per_pass.low == greedy.predicted_tokens_per_pass.high
    np.testing.assert_allclose(greedy.tokens_per_pass.value, greedy.predicted_tokens_per_pass.value)


def test_costs_are_positive(pair) -> None:
    costs = measure_costs(pair, gamma=2)
    assert min(costs.target_step, costs.target_block, costs.draft_step) > 0


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"gamma": 0}, "gamma: must be at least 1"),
        ({"max_new_tokens": 4}, "must exceed gamma"),
        ({"rounds": 0}, "rounds: must be at least 1"),
        ({"prompts": [[1]]}, "at least 2, got 1"),
    ],
)
def test_refuses_bad_input(pair, changes, problem) -> None:
    with pytest.raises(InvalidInputError, match=problem):
        measure_pair(pair, **{"gamma": 3, "prompts": PROMPTS, **changes})


def test_without_a_tokeniser_prompts_are_needed(pair) -> None:
    with pytest.raises(InvalidInputError, match="has no tokeniser"):
        measure_pair(dataclasses.replace(pair, tokenizer=None))
