"""Count-based evidence: expectation exactly one, order-free, and power with a clean control."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specverify.errors import InvalidInputError
from specverify.stats.bets import LOG_E_CAP, capped_e_value, dirichlet_log_e
from specverify.stats.context import ContextBets
from specverify.stats.intervals import clopper_pearson
from specverify.stats.naming import UNKNOWN, name_alternative


@st.composite
def small_problems(draw):
    size = draw(st.integers(2, 4))
    weights = st.lists(st.integers(1, 50), min_size=size, max_size=size)
    target, draft, wrong = (np.array(draw(weights), dtype=float) for _ in range(3))
    return target / target.sum(), draft / draft.sum(), wrong / wrong.sum()


def expectation(bets, truth, n):
    """Sum over all count vectors of ``n`` tokens, each with its multinomial probability."""
    total = 0.0
    for tokens in itertools.combinations_with_replacement(np.flatnonzero(truth), n):
        counts = np.bincount(tokens, minlength=len(truth))
        orders = math.factorial(n) / math.prod(math.factorial(count) for count in counts)
        probability = orders * float(np.prod(truth**counts))
        total += probability * math.exp(bets.evidence(counts).log_e)
    return total


@given(small_problems(), st.integers(1, 4))
@settings(max_examples=40)
def test_mean_under_the_law_is_one(problem, n) -> None:
    target, draft, wrong = problem
    bets = ContextBets(target, draft, alternatives={"wrong": wrong, "draft": draft})
    assert expectation(bets, target, n) == pytest.approx(1.0, abs=1e-9)


@given(small_problems(), st.sampled_from([0.005, 0.1]))
@settings(max_examples=15)
def test_mean_within_the_tolerance_is_at_most_one(problem, tolerance) -> None:
    """Every extreme point of the ball: all of the tolerance moved from one token to another."""
    target, draft, wrong = problem
    target, draft, wrong = (np.append(law, 0.0) for law in (target, draft, wrong))
    wrong = 0.9 * wrong + 0.1 * np.eye(len(wrong))[-1]
    bets = ContextBets(target, draft, alternatives={"wrong": wrong}, tolerance=tolerance)
    for source, sink in itertools.permutations(range(len(target)), 2):
        moved = target.copy()
        amount = min(tolerance, moved[source])
        moved[source] -= amount
        moved[sink] += amount
        assert expectation(bets, moved, 2) <= 1 + 1e-9


@given(small_problems(), st.integers(0, 2**32 - 1))
@settings(max_examples=30)
def test_path_ends_where_the_counts_do_and_shards_merge(problem, seed) -> None:
    target, draft, wrong = problem
    bets = ContextBets(target, draft, alternatives={"wrong": wrong})
    tokens = np.random.default_rng(seed).choice(len(wrong), size=50, p=wrong)
    path = bets.path(tokens)
    for n in (1, 20, 50):
        counts = np.bincount(tokens[:n], minlength=len(target))
        assert path[n - 1] == pytest.approx(bets.evidence(counts).log_e, abs=1e-9)
    earlier = np.bincount(tokens[:20], minlength=len(target))
    np.testing.assert_allclose(bets.path(tokens[20:], earlier=earlier), path[20:], atol=1e-9)


def test_watched_all_the_time_right_engines_pass_and_wrong_ones_do_not() -> None:
    """800 audits of 300 tokens at level .05 keep it; TV .15 is found by nearly all."""
    rng = np.random.default_rng(0)
    target = rng.dirichlet(np.ones(12))
    draft = 0.6 * target + 0.4 * rng.dirichlet(np.ones(12))
    wrong = 0.85 * target + 0.15 * np.eye(12)[np.argmin(target)]
    bets = ContextBets(target, draft, alternatives={"draft": draft})
    alarms = {}
    for name, law, runs in (("right", target, 800), ("wrong", wrong, 100)):
        tokens = rng.choice(12, size=(runs, 300), p=law)
        alarms[name] = sum(float(bets.path(row).max()) >= math.log(20) for row in tokens)
    assert clopper_pearson(alarms["right"], 800, confidence=1 - 1e-6)[0] <= 0.05
    assert alarms["wrong"] >= 90


def test_a_known_law_is_named_and_a_right_one_is_not() -> None:
    rng = np.random.default_rng(1)
    target, draft, other = rng.dirichlet(np.ones(20), size=3)
    bets = ContextBets(target, draft, alternatives={"draft emitted": draft, "other": other})
    seen = bets.evidence(rng.multinomial(500, draft))
    assert seen.log_e > math.log(1e6)
    named = name_alternative(seen.shares)
    assert (named.consistent_with, named.siblings) == ("draft emitted", ())
    assert bets.evidence(rng.multinomial(500, target)).log_e < math.log(1e3)


def test_equal_laws_share_a_weight_and_a_reserve_is_never_lost() -> None:
    rng = np.random.default_rng(5)
    target, draft, wrong = rng.dirichlet(np.ones(30), size=3)
    counts = rng.multinomial(40, wrong)
    once = ContextBets(target, draft, alternatives={"a": wrong, "b": draft})
    twice = ContextBets(target, draft, alternatives={"a": wrong, "b": draft, "c": wrong.copy()})
    assert twice.evidence(counts).log_e == pytest.approx(once.evidence(counts).log_e)
    shares = twice.evidence(counts).shares
    assert shares["a"] == pytest.approx(shares["c"])
    lost = ContextBets(target, draft).evidence(rng.multinomial(10**6, target))
    assert lost.log_e > math.log(0.4)


def test_imagined_laws_average_to_the_wealth_and_tell_the_rate_of_false_alarms() -> None:
    """Mean likelihood ratio of the laws that the bets imagine: the e-value; level 1e-6 each."""
    rng = np.random.default_rng(6)
    target, draft, wrong = rng.dirichlet(np.ones(20), size=3)
    bets = ContextBets(target, draft, alternatives={"wrong": wrong})
    counts = rng.multinomial(6, target)
    laws = [bets.imagined_law(rng) for _ in range(4000)]
    assert all(law.sum() == pytest.approx(1.0) for law in laws)
    ratios = np.array([np.prod((law / target) ** counts) for law in laws])
    error = ratios.std() / math.sqrt(len(ratios))
    assert abs(ratios.mean() - math.exp(bets.evidence(counts).log_e)) < 5 * error


def test_an_unknown_law_is_not_named() -> None:
    rng = np.random.default_rng(2)
    target, draft, truth = rng.dirichlet(np.ones(6), size=3)
    bets = ContextBets(target, draft, alternatives={"draft emitted": draft})
    naming = name_alternative(bets.evidence(rng.multinomial(3000, truth)).shares)
    assert naming.consistent_with is None
    assert naming.share > 0.99


def test_an_impossible_token_is_a_proof_and_names_what_allows_it() -> None:
    target = np.array([0.5, 0.5, 0.0, 0.0])
    leaky = {"leak": np.array([0.45, 0.45, 0.1, 0.0]), "skew": np.array([0.6, 0.4, 0.0, 0.0])}
    bets = ContextBets(target, target, alternatives=leaky)
    seen = bets.evidence(np.array([10, 9, 1, 0]))
    assert (seen.log_e, seen.impossible, seen.n) == (math.inf, 1, 20)
    assert capped_e_value(seen.log_e) == math.exp(LOG_E_CAP) < math.inf
    assert name_alternative(seen.shares).consistent_with == "leak"
    assert bets.evidence(np.array([10, 9, 0, 1])).shares[UNKNOWN] == 1.0
    np.testing.assert_array_equal(np.isinf(bets.path(np.array([0, 1, 3, 0]))), [0, 0, 1, 1])
    assert np.isinf(bets.path(np.array([0, 1]), earlier=np.array([3, 3, 0, 1]))).all()


def test_tolerance_forgives_small_deviations_and_leaks_but_not_large_ones() -> None:
    rng = np.random.default_rng(3)
    target = np.append(rng.dirichlet(np.ones(30)), 0.0)
    draft = np.append(rng.dirichlet(np.ones(30)), 0.0)
    near = target + 0.004 * (np.eye(31)[-1] - np.eye(31)[np.argmax(target)])
    strict = ContextBets(target, draft, alternatives={"draft": draft})
    tolerant = ContextBets(target, draft, alternatives={"draft": draft}, tolerance=0.005)
    honest = rng.multinomial(100_000, near)
    assert strict.evidence(honest).log_e == math.inf
    assert tolerant.evidence(honest).log_e < math.log(20)
    often, second = np.argsort(target)[-1:-3:-1]  # within what the law allows
    inside = target + 0.004 * (np.eye(31)[second] - np.eye(31)[often])
    many = np.random.default_rng(4).multinomial(2_000_000, inside)
    assert strict.evidence(many).log_e > math.log(1e6)
    assert tolerant.evidence(many).log_e < math.log(20)
    leaking = 0.96 * target + 0.04 * np.eye(31)[-1]
    assert tolerant.evidence(rng.multinomial(3000, leaking)).log_e > math.log(1e3)
    assert tolerant.evidence(rng.multinomial(3000, draft)).log_e > math.log(1e3)


def test_safe_at_ten_million_tokens() -> None:
    rng = np.random.default_rng(4)
    target, draft = rng.dirichlet(np.full(5000, 0.3), size=2)
    bets = ContextBets(target, draft, alternatives={"mix": 0.5 * target + 0.5 * draft})
    right = bets.evidence(rng.multinomial(10**7, target))
    wrong = bets.evidence(rng.multinomial(10**7, 0.999 * target + 0.001 * draft))
    assert -1e6 < right.log_e < math.log(1e6)
    assert math.log(1e6) < wrong.log_e < math.inf
    assert sum(wrong.shares.values()) == pytest.approx(1.0)


def test_dirichlet_bet_is_accurate_where_gammas_cancel() -> None:
    """Against exact rational products, at a concentration where log-gamma loses its digits."""
    from fractions import Fraction

    probs, counts = [Fraction(1, 4), Fraction(3, 4)], [3, 2]
    for concentration in (1, 4000, 10**8):
        exact, n = Fraction(1), 0
        for cell, count in enumerate(counts):
            for seen in range(count):
                weight = concentration * probs[cell]
                exact *= (seen + weight) / (n + concentration) / probs[cell]
                n += 1
        value = dirichlet_log_e(np.array(counts), np.array([0.25, 0.75]), concentration)
        assert value == pytest.approx(math.log(exact), rel=1e-6, abs=1e-15)


@pytest.mark.parametrize("size", [1, 2])
def test_edges(size) -> None:
    law = np.full(size, 1 / size)
    bets = ContextBets(law)
    assert bets.evidence(np.zeros(size, dtype=int)).log_e == pytest.approx(0.0)
    assert len(bets.path(np.zeros(0, dtype=int))) == 0
    assert bets.evidence(np.full(size, 100)).log_e < math.log(20)
    assert bets.evidence(np.zeros(size, dtype=int)).shares == {UNKNOWN: pytest.approx(1.0)}


def test_refusals() -> None:
    law = np.array([0.5, 0.5])
    with pytest.raises(InvalidInputError, match=r"^draft_probs"):
        ContextBets(law, np.full(3, 1 / 3))
    with pytest.raises(InvalidInputError, match=r"^alternatives\['x'\]"):
        ContextBets(law, alternatives={"x": np.array([0.7, 0.7])})
    with pytest.raises(InvalidInputError, match=r"^tolerance"):
        ContextBets(law, tolerance=1.0)
    with pytest.raises(InvalidInputError, match=r"^tokens"):
        ContextBets(law).path(np.array([2]))
    with pytest.raises(InvalidInputError, match=r"^counts"):
        ContextBets(law).evidence(np.array([1, 2, 3]))
