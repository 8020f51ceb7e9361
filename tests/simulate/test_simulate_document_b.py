"""Document B's simulator: its interface, and its study against the exact law."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from specverify.errors import InvalidInputError
from specverify.simulate.document_b import SimulatedSpeculativeDecoder
from specverify.theory.emitted_length import emitted_length_pmf
from specverify.theory.stopped_decode import stopped_decode_law

ALPHAS = (0.5, 0.6, 0.7, 0.8, 0.9)
RUNS = 1000


def decoder(alpha: float, *, seed: int = 0) -> SimulatedSpeculativeDecoder:
    return SimulatedSpeculativeDecoder(alpha, 1000, generator=np.random.default_rng(seed))


def test_one_generation_adds_up() -> None:
    result = decoder(0.8).simulate_generation(100, 5, 5.0, 100.0)
    assert 100 <= len(result.tokens) < 105
    assert result.tokens.min() >= 0
    assert result.tokens.max() < 1000
    assert result.speculative_time_ms == result.rounds * 125.0
    assert result.standard_time_ms == 10_000.0
    assert result.speedup == pytest.approx(80 / result.rounds)
    assert result.tokens_per_round == len(result.tokens) / result.rounds


def test_certain_drafts() -> None:
    result = decoder(1.0).simulate_generation(10, 5, 0.0, 1.0)
    assert (len(result.tokens), result.rounds, result.speedup) == (10, 2, 5.0)
    assert decoder(0.0).simulate_generation(10, 5, 0.0, 1.0).rounds == 10


def test_seeded() -> None:
    first, second = (decoder(0.6, seed=4).simulate_generation(50, 3, 1, 10) for _ in range(2))
    np.testing.assert_array_equal(first.tokens, second.tokens)
    assert first.speedup == second.speedup


@functools.cache
def study(alpha: float):
    simulator = decoder(alpha, seed=int(alpha * 10))
    return [simulator.simulate_generation(100, 5, 5, 100) for _ in range(RUNS)]


def errors_from(alpha: float, mean_tokens: float, mean_speedup: float) -> list[float]:
    """Distance of simulated means from the given ones, in standard errors."""
    columns = {"tokens_per_round": mean_tokens, "speedup": mean_speedup}
    errors = []
    for name, mean in columns.items():
        values = np.array([getattr(result, name) for result in study(alpha)])
        errors.append(abs(values.mean() - mean) / (values.std(ddof=1) / np.sqrt(RUNS)))
    return errors


@pytest.mark.parametrize("alpha", ALPHAS)
def test_the_study_agrees_with_its_exact_law(alpha) -> None:
    law = stopped_decode_law(emitted_length_pmf(alpha, 5, bonus=False), 100)
    speedup = law.speedup(num_draft=5, draft_time=5, target_time=100)
    assert max(errors_from(alpha, law.tokens_per_round().mean, speedup.mean)) < 4


@pytest.mark.parametrize("alpha", ALPHAS)
def test_the_bonus_formula_does_not_agree(alpha) -> None:
    """The negative control."""
    law = stopped_decode_law(emitted_length_pmf(alpha, 5), 100)
    speedup = law.speedup(num_draft=5, draft_time=5, target_time=100)
    assert max(errors_from(alpha, law.tokens_per_round().mean, speedup.mean)) > 4


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: SimulatedSpeculativeDecoder(1.1, 10), r"acceptance_rate: .* got 1.1"),
        (lambda: SimulatedSpeculativeDecoder(float("nan"), 10), "acceptance_rate: .* got nan"),
        (lambda: SimulatedSpeculativeDecoder(0.5, 0), "vocab_size: must be at least 1, got 0"),
        (lambda: decoder(0.5).simulate_generation(0, 5, 5, 100), "total_tokens: .* got 0"),
        (lambda: decoder(0.5).simulate_generation(9, 0, 5, 100), "num_draft: .* got 0"),
        (lambda: decoder(0.5).simulate_generation(9, 5, -1, 100), "draft_time_ms: .* got -1"),
        (lambda: decoder(0.5).simulate_generation(9, 5, 5, 0), "target_time_ms: .* got 0"),
        (lambda: decoder(0.5).simulate_generation(9, 5, 5, np.inf), "target_time_ms: .* got inf"),
    ],
)
def test_bad_arguments_are_named(call, message) -> None:
    with pytest.raises(InvalidInputError, match=message):
        call()
