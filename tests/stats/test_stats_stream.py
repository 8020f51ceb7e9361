"""Evidence where every token has laws of its own: mean one, resumable, sharp, quiet when right."""

from __future__ import annotations

import itertools
import json
import math

import numpy as np
import pytest

from specverify.errors import InvalidInputError
from specverify.stats.histogram import HistogramBets
from specverify.stats.intervals import clopper_pearson
from specverify.stats.naming import name_alternative
from specverify.stats.stream import StreamBets
from specverify.stats.views import view_context, view_tokens


def law_after(prefix, size, salt):
    """A law that depends on everything before: what an e-process must bear."""
    seed = [salt, *(token + 1 for token in prefix)]
    weights = np.random.default_rng(seed).integers(1, 20, size=size).astype(float)
    return weights / weights.sum()


def rows_along(tokens, size, salt):
    return np.array([law_after(tokens[:n], size, salt) for n in range(len(tokens))])


def views_of(tokens, size=3):
    target, draft, wrong = (rows_along(tokens, size, salt) for salt in range(3))
    return view_tokens(target, tokens, draft_probs=draft, alternatives={"wrong": wrong}), target


@pytest.mark.parametrize("groups", [1, 2])
def test_mean_under_laws_that_depend_on_the_past_is_one(groups) -> None:
    total = 0.0
    for tokens in itertools.product(range(3), repeat=4):
        views, target = views_of(tokens)
        bets = StreamBets(("wrong",), groups=groups)
        probability = float(np.prod(target[np.arange(4), tokens]))
        total += probability * math.exp(bets.update(views, np.arange(4) % groups)[-1])
    assert total == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("tolerance", [0.01, 0.1])
def test_mean_within_the_tolerance_is_at_most_one(tolerance) -> None:
    for source, sink in itertools.permutations(range(3), 2):
        total = 0.0
        for tokens in itertools.product(range(3), repeat=3):
            views, target = views_of(tokens)
            moved = target.copy()
            amount = np.minimum(tolerance, moved[:, source])
            moved[:, source] -= amount
            moved[:, sink] += amount
            path = StreamBets(("wrong",), tolerance=tolerance).update(views)
            total += float(np.prod(moved[np.arange(3), tokens])) * math.exp(path[-1])
        assert total <= 1 + 1e-12


def contexts(rng, n, size=50):
    target = rng.dirichlet(np.full(size, 0.3), size=n)
    draft = 0.7 * target + 0.3 * rng.dirichlet(np.full(size, 0.3), size=n)
    return target, draft


def draw(rng, laws):
    return (rng.random(len(laws))[:, None] > np.cumsum(laws, axis=1)[:, :-1]).sum(axis=1)


def test_chunks_and_a_stored_state_change_nothing() -> None:
    rng = np.random.default_rng(0)
    target, draft = contexts(rng, 200)
    tokens, labels = draw(rng, target), rng.integers(0, 3, size=200)
    whole = StreamBets(("draft",), groups=3)

    def views(rows):
        laws = {"draft": draft[rows]}
        return view_tokens(target[rows], tokens[rows], draft_probs=draft[rows], alternatives=laws)

    path = whole.update(views(slice(None)), labels)
    first = StreamBets(("draft",), groups=3)
    first.update(views(slice(0, 77)), labels[:77])
    second = StreamBets(("draft",), groups=3)
    second.restore(json.loads(json.dumps(first.state())))
    rest = second.update(views(slice(77, None)), labels[77:])
    np.testing.assert_allclose(rest, path[77:], atol=1e-9)
    assert second.log_e == pytest.approx(whole.log_e)
    assert second.n == 200


def test_watched_all_the_time_keeps_its_level() -> None:
    """300 audits of 200 tokens at level .05."""
    rng, alarms = np.random.default_rng(1), 0
    for _ in range(300):
        target, draft = contexts(rng, 200, size=20)
        views = view_tokens(target, draw(rng, target), draft_probs=draft)
        alarms += float(StreamBets().update(views).max()) >= math.log(20)
    assert clopper_pearson(alarms, 300, confidence=1 - 1e-6)[0] <= 0.05


@pytest.mark.parametrize("known", [True, False])
def test_draft_emitted_is_found_and_named_only_if_known(known) -> None:
    rng = np.random.default_rng(2)
    target, draft = contexts(rng, 1500)
    laws = {"draft": draft, "flat": np.full_like(draft, 1 / 50)} if known else {}
    wrong = view_tokens(target, draw(rng, draft), draft_probs=draft, alternatives=laws)
    bets = StreamBets(tuple(laws))
    bets.update(wrong)
    assert bets.log_e > math.log(1e6)
    naming = name_alternative(bets.shares)
    assert naming.consistent_with == ("draft" if known else None)
    right = view_tokens(target, draw(rng, target), draft_probs=draft, alternatives=laws)
    control = StreamBets(tuple(laws))
    assert control.update(right).max() < math.log(1e6)


def test_labels_find_a_bug_at_one_position_sooner() -> None:
    rng = np.random.default_rng(3)
    target, draft = contexts(rng, 4000)
    labels = np.arange(4000) % 8
    law = np.where((labels == 7)[:, None], draft, target)
    views = view_tokens(target, draw(rng, law), draft_probs=draft)
    labelled, plain = StreamBets(groups=8), StreamBets()
    assert labelled.update(views, labels)[-1] > plain.update(views)[-1] + math.log(1000)


def test_an_order_sees_what_others_cannot() -> None:
    """Mass moved between neighbours in id alone, or in rank alone, is found by its own order."""
    rng = np.random.default_rng(4)
    target = rng.dirichlet(np.full(64, 5.0), size=6000)
    lean = np.where(np.arange(64) < 32, 1.2, 0.8)
    wrong = target * lean / (target * lean).sum(axis=1, keepdims=True)
    bets = StreamBets()
    assert bets.update(view_tokens(target, draw(rng, wrong)))[-1] > math.log(1e6)


def test_an_impossible_token_is_a_proof_unless_tolerated() -> None:
    target = np.tile([0.5, 0.5, 0.0], (40, 1))
    tokens = np.zeros(40, dtype=int)
    tokens[5] = 2
    views = view_tokens(target, tokens)
    strict, tolerant = StreamBets(), StreamBets(tolerance=0.05)
    np.testing.assert_array_equal(np.isinf(strict.update(views)), np.arange(40) >= 5)
    assert strict.log_e == math.inf
    assert math.isfinite(tolerant.update(views)[-1])
    leaks = view_tokens(target, np.where(np.arange(40) % 3, 0, 2))
    assert StreamBets(tolerance=0.05).update(leaks)[-1] > math.log(1e3)


def test_intervals_by_hand() -> None:
    target = np.array([[0.5, 0.2, 0.2, 0.1]] * 4)
    draft = np.array([[0.1, 0.4, 0.2, 0.3]] * 4)
    views = view_tokens(target, [0, 1, 2, 3], draft_probs=draft)
    by_ratio = [[0.0, 0.5], [0.7, 0.9], [0.5, 0.7], [0.9, 1.0]]
    by_rank = [[0.0, 0.5], [0.5, 0.9], [0.5, 0.9], [0.9, 1.0]]
    by_id = [[0.0, 0.5], [0.5, 0.7], [0.7, 0.9], [0.9, 1.0]]
    np.testing.assert_allclose(views.intervals, np.stack([by_ratio, by_rank, by_id], axis=1))
    np.testing.assert_array_equal(views.gains, [True, False, False, False])
    np.testing.assert_allclose(views.gain_chances, 0.5)


@pytest.mark.parametrize("with_draft", [True, False])
def test_many_tokens_of_one_context_look_as_each_alone_does(with_draft) -> None:
    rng = np.random.default_rng(7)
    # Every token has a twin, which no order by mass can tell from it.
    target, draft, wrong = np.tile(rng.dirichlet(np.ones(20), size=3) / 2, 2)
    target[::9] = 0.0
    target /= target.sum()
    tokens = np.arange(40)
    other = {"draft_probs": draft} if with_draft else {}
    shared = view_context(target, tokens, **other, alternatives={"wrong": wrong})
    tile = (40, 1)
    alone = view_tokens(
        np.tile(target, tile),
        tokens,
        **{name: np.tile(law, tile) for name, law in other.items()},
        alternatives={"wrong": np.tile(wrong, tile)},
    )
    possible = target > 0
    np.testing.assert_allclose(
        shared.intervals[possible], alone.intervals[possible], rtol=0, atol=1e-12
    )
    for field in ("gains", "gain_chances", "ratios", "impossible"):
        np.testing.assert_allclose(getattr(shared, field), getattr(alone, field), atol=1e-12)
    assert shared.names == alone.names


def test_histogram_bets_have_mean_one_over_any_cut_of_the_unit_interval() -> None:
    cuts = np.array([0.0, 0.13, 0.5, 0.88, 1.0])
    spans = np.stack([cuts[:-1], cuts[1:]], axis=1)
    bets = HistogramBets(4)
    bets.update(np.array([[0.1, 0.2], [0.15, 0.6]]))
    means = np.zeros(bets.size)
    for span in spans:
        fresh = HistogramBets(4)
        fresh.counts = bets.counts.copy()
        means += (span[1] - span[0]) * np.exp(fresh.update(span[None])[0])
    np.testing.assert_allclose(means, 1.0)


def test_refusals() -> None:
    law = np.array([[0.5, 0.5]])
    with pytest.raises(InvalidInputError, match=r"^tokens"):
        view_tokens(law, [2])
    with pytest.raises(InvalidInputError, match=r"^draft_probs"):
        view_tokens(law, [0], draft_probs=[[0.2, 0.3, 0.5]])
    with pytest.raises(InvalidInputError, match=r"^target_probs"):
        view_tokens(law[0], [0])
    with pytest.raises(InvalidInputError, match=r"^groups"):
        StreamBets(groups=0)
    with pytest.raises(InvalidInputError, match=r"^tolerance"):
        StreamBets(tolerance=-0.1)
    with pytest.raises(InvalidInputError, match=r"^views"):
        StreamBets(("x",)).update(view_tokens(law, [0]))
    with pytest.raises(InvalidInputError, match=r"^groups"):
        StreamBets().update(view_tokens(law, [0]), [1])
