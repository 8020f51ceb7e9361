"""Time spent in the states of a chain: the tables against enumeration, and draws against both."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

from specverify.simulate.markov import MarkovAcceptance
from specverify.simulate.occupancy import Occupancy

TWO = np.array([[0.9, 0.1], [0.3, 0.7]])
THREE = np.array([[0.8, 0.2, 0.0], [0.1, 0.6, 0.3], [0.5, 0.0, 0.5]])
ALARM = 1e-6


def enumerated(transition: np.ndarray, start: int, rounds: int) -> dict[tuple[int, ...], float]:
    """Probability of (rounds in each state ..., state after the last), path by path."""
    states = range(len(transition))
    law: dict[tuple[int, ...], float] = {}
    for path in itertools.product(states, repeat=rounds):
        steps = (start, *path)
        chance = np.prod([transition[a, b] for a, b in itertools.pairwise(steps)])
        key = (*(steps[:-1].count(state) for state in states), steps[-1])
        law[key] = law.get(key, 0.0) + float(chance)
    return {key: chance for key, chance in law.items() if chance}


def drawn(transition: np.ndarray, start: int, rounds: int, runs: int) -> dict:
    spent, end = Occupancy(transition).draw(
        np.random.default_rng(3), np.full(runs, start), np.full(runs, rounds)
    )
    keys, counts = np.unique(np.column_stack([spent, end]), axis=0, return_counts=True)
    return {tuple(map(int, key)): int(n) for key, n in zip(keys, counts, strict=True)}


def p_value(law: dict, counts: dict, runs: int) -> float:
    assert counts.keys() <= law.keys()
    common = [key for key in law if law[key] * runs >= 10]
    observed = [counts.get(key, 0) for key in common]
    expected = [law[key] * runs for key in common]
    rest = runs - sum(expected)
    if rest > 1e-6:
        observed, expected = [*observed, runs - sum(observed)], [*expected, rest]
    return float(stats.chisquare(observed, expected, sum_check=False).pvalue)


@pytest.mark.parametrize("transition", [TWO, THREE], ids=["two", "three"])
@pytest.mark.parametrize("rounds", [1, 2, 5, 7])
def test_draws_have_the_enumerated_law(transition, rounds) -> None:
    for start in range(len(transition)):
        law = enumerated(transition, start, rounds)
        assert p_value(law, drawn(transition, start, rounds, 20_000), 20_000) > ALARM


def test_a_stickier_chain_is_seen() -> None:
    """The negative control: a leaving probability of .13 for .10."""
    law = enumerated(TWO, 0, 5)
    other = np.array([[0.87, 0.13], [0.3, 0.7]])
    assert p_value(law, drawn(other, 0, 5, 20_000), 20_000) < ALARM


def test_long_runs_have_the_stationary_share_and_its_spread() -> None:
    """Variance of the time in a two-state chain: n pi (1 - pi) (1 + r) / (1 - r), r = 1 - a - b."""
    runs, rounds = 4000, 5000
    chain = MarkovAcceptance([0.9, 0.1], TWO)
    rng = np.random.default_rng(5)
    spent, _ = Occupancy(TWO).draw(rng, chain.start(rng, runs), np.full(runs, rounds))
    assert np.all(spent.sum(axis=1) == rounds)
    share, r = 0.75, 0.6
    sd = np.sqrt(rounds * share * (1 - share) * (1 + r) / (1 - r))
    assert abs(spent[:, 0].mean() - rounds * share) < 4.9 * sd / np.sqrt(runs)
    assert spent[:, 0].std() == pytest.approx(sd, rel=0.06)


def test_runs_of_unequal_length_and_of_none() -> None:
    rounds = np.array([0, 1, 6, 1000])
    spent, end = Occupancy(THREE).draw(np.random.default_rng(0), np.zeros(4, np.int64), rounds)
    np.testing.assert_array_equal(spent.sum(axis=1), rounds)
    assert end[0] == 0
    assert np.all((end >= 0) & (end < 3))


def test_one_state_and_an_absorbing_one() -> None:
    alone, _ = Occupancy(np.ones((1, 1))).draw(
        np.random.default_rng(0), np.zeros(2, np.int64), np.array([3, 70])
    )
    np.testing.assert_array_equal(alone[:, 0], [3, 70])
    stuck = np.array([[0.5, 0.5], [0.0, 1.0]])
    spent, end = Occupancy(stuck).draw(
        np.random.default_rng(0), np.zeros(500, np.int64), np.full(500, 300)
    )
    assert np.all(end == 1)
    assert abs(spent[:, 0].mean() - 2) < 4.9 * np.sqrt(2 / 500)
