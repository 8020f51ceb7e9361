"""The accept trace: exact mean one, structural bugs within tens of rounds, right engines pass."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from specverify.distributions import acceptance_probabilities, residual_distribution
from specverify.errors import InvalidInputError
from specverify.stats.intervals import clopper_pearson
from specverify.stats.trace import StageLaws, TraceBets

TARGET, DRAFT = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.3, 0.5])


def counts_of(rounds, size):
    tables = np.zeros((3, size), dtype=int)
    for draft, correction in rounds:
        if correction is None:
            tables[0, draft] += 1
        else:
            tables[1, draft] += 1
            tables[2, correction] += 1
    return tables


@pytest.mark.parametrize(
    ("target", "draft"),
    [(TARGET, DRAFT), (np.array([0.2, 0.5, 0.3]), np.array([0.4, 0.25, 0.35]))],
)
def test_mean_is_one(target, draft) -> None:
    accept, residual = acceptance_probabilities(target, draft), residual_distribution(target, draft)
    known = {"flat": StageLaws(accept=np.full(3, 0.5), residual=np.full(3, 1 / 3), draft=target)}
    bets = TraceBets(target, draft, known=known)
    outcomes = {(x, None): draft[x] * accept[x] for x in range(3)}
    outcomes |= {
        (x, y): draft[x] * (1 - accept[x]) * residual[y] for x in range(3) for y in range(3)
    }
    possible = {outcome: mass for outcome, mass in outcomes.items() if mass > 0}
    total = sum(
        math.prod(possible[o] for o in rounds)
        * math.exp(bets.evidence(*counts_of(rounds, 3)).log_e)
        for rounds in itertools.product(possible, repeat=3)
    )
    # Known corrections that the law excludes lose the mass that they put there.
    assert total <= 1 + 1e-12
    assert total == pytest.approx(1.0, abs=1e-12) or np.any(residual == 0)
    plain = TraceBets(target, draft)
    exact = sum(
        math.prod(possible[o] for o in rounds)
        * math.exp(plain.evidence(*counts_of(rounds, 3)).log_e)
        for rounds in itertools.product(possible, repeat=3)
    )
    assert exact == pytest.approx(1.0, abs=1e-12)


def engine(target, draft, rounds, rng, *, bug=None):
    """Counts of the trace of a sampler with one defect, vectorised."""
    size, accept = len(target), acceptance_probabilities(target, draft)
    residual = residual_distribution(target, draft)
    if bug == "resample from target":
        residual = target
    elif bug == "absolute residual":
        residual = np.abs(target - draft) / np.abs(target - draft).sum()
    elif bug == "accept min(1, p)":
        accept = target
    elif bug == "draft emitted":
        accept = np.ones(size)
    elif bug == "hot target":
        hot = target**0.7 / (target**0.7).sum()
        accept = acceptance_probabilities(hot, draft)
        residual = residual_distribution(hot, draft)
    ids = rng.choice(size, size=rounds, p=draft)
    kept = rng.random(rounds) < accept[ids]
    corrections = rng.choice(size, size=int((~kept).sum()), p=residual)
    tokens = (ids[kept], ids[~kept], corrections)
    return tuple(np.bincount(part, minlength=size) for part in tokens)


def problem(size=1000):
    rng = np.random.default_rng(11)
    target = rng.dirichlet(np.full(size, 0.1))
    draft = target * np.exp(0.6 * rng.standard_normal(size))
    return target, draft / draft.sum()


@pytest.mark.parametrize(
    ("bug", "rounds", "stage"),
    [
        ("resample from target", 60, "residual"),
        ("absolute residual", 60, "residual"),
        ("accept min(1, p)", 60, "accept"),
        ("draft emitted", 150, "accept"),
        ("hot target", 200, "accept"),
    ],
)
def test_structural_bugs_show_at_once_and_at_their_stage(bug, rounds, stage) -> None:
    target, draft = problem()
    bets, rng = TraceBets(target, draft), np.random.default_rng(5)
    found = [bets.evidence(*engine(target, draft, rounds, rng, bug=bug)) for _ in range(40)]
    assert sum(e.log_e >= math.log(1000) for e in found) >= 32
    strong = [e.stage for e in found if e.log_e >= math.log(1000)]
    if bug != "hot target":
        assert strong.count(stage) > 0.9 * len(strong)


def test_a_right_engine_passes() -> None:
    target, draft = problem()
    bets, rng, alarms = TraceBets(target, draft), np.random.default_rng(6), 0
    for rounds in (30, 300, 3000):
        alarms += sum(
            bets.evidence(*engine(target, draft, rounds, rng)).log_e >= math.log(20)
            for _ in range(100)
        )
    assert clopper_pearson(alarms, 300, confidence=1 - 1e-6)[0] <= 0.05


def test_impossible_events_are_counted_by_stage() -> None:
    bets = TraceBets(TARGET, DRAFT)
    zero = np.zeros(3, dtype=int)
    rejected_surely_accepted = bets.evidence(zero, np.array([1, 0, 0]), np.array([1, 0, 0]))
    assert rejected_surely_accepted.impossible == {"draft": 0, "accept": 1, "residual": 0}
    excluded = TraceBets(np.array([0.0, 0.6, 0.4]), DRAFT).evidence(np.array([1, 0, 0]), zero, zero)
    assert excluded.impossible == {"draft": 0, "accept": 1, "residual": 0}
    assert (excluded.log_e, excluded.stage) == (math.inf, "accept")
    # Proof beside more evidence than a float holds as an e-value.
    both = bets.evidence(zero, np.array([3000, 0, 0]), np.array([3000, 0, 0]))
    assert (both.log_e, both.stages["draft"] > 710) == (math.inf, True)
    wrong_correction = bets.evidence(zero, np.array([0, 0, 1]), np.array([0, 1, 0]))
    assert wrong_correction.impossible["residual"] == 1
    assert (wrong_correction.log_e, wrong_correction.stage) == (math.inf, "residual")


def test_nothing_happened() -> None:
    zero = np.zeros(3, dtype=int)
    assert TraceBets(TARGET, DRAFT).evidence(zero, zero, zero).log_e == pytest.approx(0.0)
    same = TraceBets(TARGET, TARGET).evidence(np.array([5, 3, 2]), zero, zero)
    assert same.log_e < math.log(20)


def test_refusals() -> None:
    with pytest.raises(InvalidInputError, match=r"^draft_probs"):
        TraceBets(TARGET, np.array([0.5, 0.5]))
    with pytest.raises(InvalidInputError, match=r"^rejected"):
        TraceBets(TARGET, DRAFT).evidence(np.zeros(3), np.zeros(2), np.zeros(3))
