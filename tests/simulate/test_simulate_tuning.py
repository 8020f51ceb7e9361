"""Recommendations against theory, and against truths that they were not told."""

from __future__ import annotations

import numpy as np
import pytest

from specverify.errors import InvalidInputError
from specverify.simulate.tuning import belief_of, belief_of_measurements, misjudged, recommend
from specverify.theory.optimal_gamma import optimal_gamma, optimal_gamma_of_costs
from specverify.theory.speedup import speculative_speedup


def certain(alpha: float, c: float, **options):
    return belief_of((alpha,) * 3, (c,) * 3, **options)


@pytest.mark.parametrize("alpha", [0.2, 0.5, 0.8, 0.95])
@pytest.mark.parametrize("c", [0.0, 0.05, 0.3])
def test_without_doubt_it_is_the_optimal_gamma(alpha, c) -> None:
    found = recommend(certain(alpha, c))
    best = optimal_gamma(alpha, c, max_gamma=20)
    assert (found.gamma, found.gamma_low, found.gamma_high) == (best, best, best)
    exact = speculative_speedup(alpha, best, c)
    assert found.speedup == pytest.approx(exact)
    assert (found.speedup_low, found.speedup_high) == pytest.approx((exact, exact))
    assert found.worst_loss == found.cautious_loss == 0


def test_a_pass_that_grows_with_the_block_shortens_the_draft() -> None:
    found = recommend(certain(0.9, 0.05, verify_cost=1.1, verify_slope=0.2))
    costs = 1.1 + 0.2 * np.arange(20)
    assert found.gamma == optimal_gamma_of_costs(0.9, 0.05, costs)
    assert found.gamma < recommend(certain(0.9, 0.05)).gamma


def test_bounds_span_the_optima_and_speedups_of_their_corners() -> None:
    found = recommend(belief_of((0.8, 0.7, 0.9), (0.1, 0.05, 0.2)))
    assert found.gamma_low == optimal_gamma(0.7, 0.2)
    assert found.gamma_high == optimal_gamma(0.9, 0.05)
    assert found.speedup_low == pytest.approx(speculative_speedup(0.7, found.gamma, 0.2))
    assert found.speedup_high == pytest.approx(speculative_speedup(0.9, found.gamma, 0.05))
    assert found.gamma_low <= found.cautious_gamma <= found.gamma_high
    assert 0 < found.cautious_loss <= found.worst_loss
    corner = speculative_speedup(0.9, found.gamma, 0.05) / speculative_speedup(
        0.9, found.gamma_high, 0.05
    )
    assert found.worst_loss >= 1 - corner - 1e-12


def test_the_loss_of_a_wrong_belief_by_hand() -> None:
    rows = {row["truth"]: row for row in misjudged(certain(0.8, 0.1))}
    chosen, truth = optimal_gamma(0.8, 0.1), optimal_gamma(0.7, 0.1)
    got, best = (speculative_speedup(0.7, gamma, 0.1) for gamma in (chosen, truth))
    assert rows["alpha -0.1"]["gamma"] == truth
    assert rows["alpha -0.1"]["loss"] == pytest.approx(1 - got / best)
    assert rows["draft cost x 2"]["gamma"] == optimal_gamma(0.8, 0.2)
    assert all(0 <= row["loss"] < 1 for row in rows.values())


def record(gamma: int, **changes):
    alphas = [{"value": 0.8, "low": 0.75, "high": 0.85}] * gamma
    return {
        "gamma": gamma,
        "c": 0.1,
        "verify_cost": 1 + 0.05 * gamma,
        "alpha_by_position": alphas,
        "pass_cost_bounds": {"value": 1.5, "low": 1.35, "high": 1.8},
    } | changes


def test_measured_costs_are_interpolated_and_go_on() -> None:
    belief = belief_of_measurements([record(4), record(2)], max_gamma=8)
    gammas = np.arange(1, 9)
    np.testing.assert_allclose(belief.draft_costs, 0.1 * gammas)
    np.testing.assert_allclose(belief.verify_costs, 1 + 0.05 * gammas)
    np.testing.assert_allclose(belief.alphas, np.repeat([[0.8], [0.75], [0.85]], 8, axis=1))
    assert belief.scale == pytest.approx((0.9, 1.2))
    expected = speculative_speedup(0.8, gammas, 0.1, verify_cost=1 + 0.05 * gammas)
    np.testing.assert_allclose(belief.speedups(), expected)


def test_alpha_by_position_is_used_as_measured() -> None:
    rates = [{"value": v, "low": v, "high": v} for v in (0.9, 0.5)]
    belief = belief_of_measurements([record(2, alpha_by_position=rates)], max_gamma=3)
    tokens = belief.speedups() * (belief.draft_costs + belief.verify_costs)
    np.testing.assert_allclose(tokens, [1.9, 1.9 + 0.45, 1.9 + 0.45 + 0.225])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: belief_of((0.5, 0.6, 0.7), (0.1,) * 3), r"alpha: 0.5 lies outside its bounds"),
        (lambda: belief_of((1.5,) * 3, (0.1,) * 3), r"alpha: must lie in \[0, 1\], got 1.5"),
        (lambda: belief_of((0.5,) * 3, (-1,) * 3), "c: must be finite and at least 0"),
        (lambda: certain(0.5, 0.1, max_gamma=0), "max_gamma: must be at least 1"),
        (lambda: certain(0.5, 0.1, verify_cost=0.0), "verify_cost: must be finite and above 0"),
        (
            lambda: belief_of_measurements([{"gamma": 2}]),
            "records: are not of",
        ),
        (lambda: belief_of_measurements([]), "records: are not of"),
    ],
)
def test_bad_arguments_are_named(call, message) -> None:
    with pytest.raises(InvalidInputError, match=message):
        call()
