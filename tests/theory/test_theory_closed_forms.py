"""Expected tokens, speedup and optimal gamma against exact arithmetic and brute force."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from specverify.errors import InvalidInputError
from specverify.theory.expected_tokens import expected_accepted_tokens
from specverify.theory.optimal_gamma import optimal_gamma
from specverify.theory.speedup import speculative_speedup

ALPHAS = st.floats(0, 1)
GAMMAS = st.integers(1, 40)


def exact_tokens(alpha: float, gamma: int, *, bonus: bool = True) -> Fraction:
    return sum((Fraction(alpha) ** k for k in range(gamma + int(bonus))), Fraction(0))


def exact_speedups(alpha: float, c: float, verify_cost: float, count: int, *, bonus: bool):
    return [
        exact_tokens(alpha, gamma, bonus=bonus) / (gamma * Fraction(c) + Fraction(verify_cost))
        for gamma in range(1, count + 1)
    ]


@given(ALPHAS, GAMMAS, st.booleans())
@example(1.0, 5, True)
@example(0.0, 5, True)
@example(np.nextafter(1.0, 0), 40, True)
@example(1 - 1e-9, 40, False)
@example(5e-324, 3, True)
def test_expected_tokens_is_the_geometric_sum(alpha, gamma, bonus) -> None:
    expected = float(exact_tokens(alpha, gamma, bonus=bonus))
    tokens = expected_accepted_tokens(alpha, gamma, bonus=bonus)
    assert isinstance(tokens, float)
    assert tokens == pytest.approx(expected, rel=4e-15)


def test_the_textbook_quotient_would_have_failed() -> None:
    alpha, gamma = 1 - 1e-8, 8
    naive = (1 - alpha ** (gamma + 1)) / (1 - alpha)
    exact = float(exact_tokens(alpha, gamma))
    assert naive != pytest.approx(exact, rel=1e-10)
    assert expected_accepted_tokens(alpha, gamma) == pytest.approx(exact, rel=1e-15)


def test_arrays_broadcast() -> None:
    tokens = expected_accepted_tokens(np.array([[0.0], [0.5], [1.0]]), np.arange(1, 4))
    np.testing.assert_allclose(tokens, [[1, 1, 1], [1.5, 1.75, 1.875], [2, 3, 4]])
    speedup = speculative_speedup([0.5, 1.0], 2, 0.25, verify_cost=[0.5, 1.5])
    np.testing.assert_allclose(speedup, [1.75, 1.5])


def test_speedup_by_hand() -> None:
    assert speculative_speedup(0.5, 2, 0.25) == pytest.approx(1.75 / 1.5)
    assert speculative_speedup(0.5, 2, 0.25, bonus=False) == pytest.approx(1.0)
    assert speculative_speedup(1.0, 3, 0.0) == 4.0
    assert isinstance(speculative_speedup(0.5, 2, 0.25), float)


@given(ALPHAS, st.floats(0, 2), st.floats(0.1, 4), st.booleans())
@example(0.5, 0.2, 1.0, True)
@example(0.5, 0.25, 1.25, True)  # a tie of gamma = 1 and 2: .25 (.25 + 1.25) = .25 * 1.5
@example(1.0, 1.0, 1.0, True)  # every gamma ties
@example(1.0, 0.5, 1.0, True)
@example(0.0, 0.0, 1.0, True)
def test_optimal_gamma_is_the_first_exact_maximum(alpha, c, verify_cost, bonus) -> None:
    speedups = exact_speedups(alpha, c, verify_cost, 12, bonus=bonus)
    best = optimal_gamma(alpha, c, max_gamma=12, verify_cost=verify_cost, bonus=bonus)
    assert isinstance(best, int)
    assert best == speedups.index(max(speedups)) + 1


def test_ties_go_to_the_smallest() -> None:
    speedups = exact_speedups(0.5, 0.25, 1.25, 2, bonus=True)
    assert speedups[0] == speedups[1]
    assert optimal_gamma(0.5, 0.25, verify_cost=1.25) == 1
    assert optimal_gamma(1.0, 1.0) == 1
    # The same setting a hair to either side: the tie is real, and so is its resolution.
    assert optimal_gamma(0.5, np.nextafter(0.25, 0), verify_cost=1.25) == 2
    assert optimal_gamma(0.5, np.nextafter(0.25, 1), verify_cost=1.25) == 1


@pytest.mark.parametrize("seed", range(30))
def test_within_rounding_of_a_tie_fractions_decide(seed) -> None:
    """Costs at and beside the one where gamma and gamma + 1 tie: floats alone err on a quarter."""
    rng = np.random.default_rng(seed)
    alpha, gamma = rng.uniform(0.1, 0.95), int(rng.integers(1, 8))
    gain = alpha ** (gamma + 1)
    tie = gain / (expected_accepted_tokens(alpha, gamma) - gamma * gain)
    for c in (np.nextafter(tie, 0), tie, np.nextafter(tie, 1)):
        speedups = exact_speedups(alpha, c, 1.0, 12, bonus=True)
        assert optimal_gamma(alpha, c, max_gamma=12) == speedups.index(max(speedups)) + 1


def test_optimal_gamma_over_a_grid() -> None:
    alphas, costs = np.meshgrid(np.linspace(0, 1, 21), np.linspace(0, 0.5, 11))
    best = optimal_gamma(alphas, costs, max_gamma=30)
    speedups = speculative_speedup(alphas[..., None], np.arange(1, 31), costs[..., None])
    reached = np.take_along_axis(speedups, best[..., None] - 1, axis=-1)[..., 0]
    np.testing.assert_allclose(reached, speedups.max(axis=-1), rtol=1e-14)
    assert optimal_gamma(0.9, 0.0, max_gamma=17) == 17


@pytest.mark.parametrize("alpha", [-0.1, 1.1, float("nan"), float("inf"), [0.5, 2.0]])
def test_bad_alpha_is_named(alpha) -> None:
    value = alpha[-1] if isinstance(alpha, list) else alpha
    for function in (
        lambda: expected_accepted_tokens(alpha, 2),
        lambda: speculative_speedup(alpha, 2, 0.1),
        lambda: optimal_gamma(alpha, 0.1),
    ):
        with pytest.raises(InvalidInputError, match=rf"alpha: must lie in \[0, 1\], got {value}"):
            function()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: expected_accepted_tokens(0.5, 0), "gamma: must be at least 1, got 0"),
        (lambda: expected_accepted_tokens(0.5, 1.5), "gamma: must be an integer, got 1.5"),
        (lambda: speculative_speedup(0.5, 2, -1.0), "c: must be finite and at least 0, got -1.0"),
        (lambda: speculative_speedup(0.5, 2, float("inf")), "c: must be finite"),
        (lambda: speculative_speedup(0.5, 2, float("nan")), "c: .* got nan"),
        (lambda: speculative_speedup(0.5, 2, 0.1, verify_cost=0), "verify_cost: .* above 0, got 0"),
        (lambda: optimal_gamma(0.5, -1.0), "c: must be finite and at least 0"),
        (lambda: optimal_gamma(0.5, 0.1, max_gamma=0), "max_gamma: must be at least 1, got 0"),
        (lambda: optimal_gamma(0.5, 0.1, max_gamma=2.5), "max_gamma: must be an integer"),
    ],
)
def test_bad_arguments_are_named(call, message) -> None:
    with pytest.raises(InvalidInputError, match=message):
        call()
