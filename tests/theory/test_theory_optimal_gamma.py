"""The best draft length where the pass over a block costs more, the longer the block."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specverify.errors import InvalidInputError
from specverify.theory.optimal_gamma import optimal_gamma, optimal_gamma_of_costs

ALPHAS, COSTS = st.floats(0, 1), st.floats(0, 2)


def exact_best(alpha: float, c: float, verify: list[float], *, bonus: bool) -> int:
    rate, step = Fraction(alpha), Fraction(c)
    speedups = [
        sum((rate**k for k in range(gamma + bonus)), Fraction(0)) / (gamma * step + Fraction(v))
        for gamma, v in enumerate(verify, start=1)
    ]
    return speedups.index(max(speedups)) + 1


@given(ALPHAS, COSTS, st.lists(st.floats(0.1, 9), min_size=1, max_size=8), st.booleans())
def test_any_curve_of_costs_is_searched_exactly(alpha, c, verify, bonus) -> None:
    best = optimal_gamma_of_costs(alpha, c, verify, bonus=bonus)
    assert isinstance(best, int)
    assert best == exact_best(alpha, c, verify, bonus=bonus)


@given(ALPHAS, COSTS, st.floats(0.1, 4))
def test_a_flat_curve_is_the_plain_optimum(alpha, c, verify) -> None:
    flat = optimal_gamma_of_costs(alpha, c, [verify] * 9)
    assert flat == optimal_gamma(alpha, c, max_gamma=9, verify_cost=verify)


def test_a_step_in_the_costs_makes_a_longer_draft_best_again() -> None:
    """Two maxima, at 2 and at 8, which bisection would miss."""
    verify = [1, 1, 2.5, 2.5, 2.5, 2.5, 2.5, 2.5]
    assert optimal_gamma_of_costs(0.98, 0.01, verify) == 8
    assert optimal_gamma_of_costs(0.6, 0.01, verify) == 2
    assert optimal_gamma(0.98, 0.01, max_gamma=8) == 8  # the control: no step


def test_a_tie_goes_to_the_smallest() -> None:
    assert optimal_gamma_of_costs(0.5, 0.25, [1.25, 1.25]) == 1
    assert optimal_gamma_of_costs(0.5, np.nextafter(0.25, 0), [1.25, 1.25]) == 2


def test_a_grid() -> None:
    alphas, costs = np.meshgrid([0.3, 0.6, 0.9], [0.05, 0.2], indexing="ij")
    best = optimal_gamma_of_costs(alphas, costs, [1.0, 1.1, 1.3, 1.6])
    assert best.shape == (3, 2)
    for at in np.ndindex(3, 2):
        single = exact_best(alphas[at], costs[at], [1.0, 1.1, 1.3, 1.6], bonus=True)
        assert best[at] == single


@pytest.mark.parametrize(
    ("verify", "message"),
    [
        ([], r"verify_costs: must be one row, got shape \(0,\)"),
        ([[1.0]], "verify_costs: must be one row"),
        ([1.0, 0.0], "verify_costs: must be finite and above 0, got 0.0"),
    ],
)
def test_bad_costs_are_named(verify, message) -> None:
    with pytest.raises(InvalidInputError, match=message):
        optimal_gamma_of_costs(0.5, 0.1, verify)
