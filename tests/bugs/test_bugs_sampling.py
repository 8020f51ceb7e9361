"""What the zoo's members sample agrees with the law that is stated for them."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from specverify.bugs import CONTROLS, LOSSY, ZOO, Kind
from specverify.bugs.batches import DISJOINT_ROWS, batch_law
from specverify.bugs.laws import block_law, emitted_law, target_law
from specverify.bugs.loops import StagedDecoder
from specverify.bugs.scenes import PROMPT, SCENES
from specverify.bugs.staged import STANDARD, StagedVerifier
from specverify.stats.goodness import pooled_chi_square

ROWS = np.array([[0.4, 0.1, 0.1, 0.4], [0.1, 0.2, 0.3, 0.4], [0.45, 0.15, 0.1, 0.3]])
DRAFTS = np.array([[0.1, 0.4, 0.4, 0.1], [0.3, 0.05, 0.6, 0.05]])
# Rows on which the members that need zeros, certainty or an odd vocabulary differ from the rest.
ODD_ROWS = np.array([[0.6, 0.4, 0.0], [1.0, 0.0, 0.0], [0.0, 0.3, 0.7]])
ODD_DRAFTS = np.array([[0.2, 0.5, 0.3], [0.6, 0.2, 0.2]])

EVERYTHING = [*ZOO.values(), *CONTROLS.values(), *LOSSY.values()]
VERIFIERS = [bug for bug in EVERYTHING if bug.kind is Kind.VERIFY]
DECODERS = [bug for bug in EVERYTHING if bug.kind is Kind.DECODE]
BATCHED = [bug for bug in EVERYTHING if bug.kind is Kind.BATCHED]
# 1e-6 for the whole file, shared by all of its tests.
LEVEL = 1e-6 / 250


def p_value(samples, law) -> float:
    outcomes = sorted(law, key=repr)
    seen = Counter(samples)
    strangers = seen.keys() - law.keys()
    counts = [*(seen[outcome] for outcome in outcomes), sum(seen[key] for key in strangers)]
    probs = np.array([*(law[outcome] for outcome in outcomes), 0.0])
    return pooled_chi_square(np.array(counts), probs / probs.sum()).p_value


def drafts(rows, n, rng):
    return np.stack([rng.choice(rows.shape[1], size=n, p=row) for row in rows], axis=1)


def singly(bug, target, draft, n):
    rng = np.random.default_rng(1)
    blocks = (bug.callable(target, draft, row, rng)[0] for row in drafts(draft, n, rng))
    return [tuple(int(token) for token in block) for block in blocks]


def in_a_batch(bug, target, draft, n):
    rng = np.random.default_rng(2)
    tokens = drafts(draft, n, rng)
    laws = np.broadcast_to(target, (n, *target.shape)), np.broadcast_to(draft, (n, *draft.shape))
    emitted, counts = bug.callable(*laws, tokens, rng)
    assert emitted.shape == (n, len(target))
    assert counts.shape == (n,)
    return [tuple(token for token in row if token != -1) for row in emitted.tolist()]


@pytest.mark.parametrize("rows", [(ROWS, DRAFTS), (ODD_ROWS, ODD_DRAFTS)], ids=["full", "odd"])
@pytest.mark.parametrize("bug", VERIFIERS, ids=str)
def test_blocks_follow_the_stated_law(bug, rows) -> None:
    law = block_law(bug.callable, *rows)
    vectorised = type(bug.callable).block is StagedVerifier.block
    assert p_value(singly(bug, *rows, 200), law) > LEVEL
    assert p_value(in_a_batch(bug, *rows, 5000 if vectorised else 200), law) > LEVEL


@pytest.mark.parametrize("bug", DECODERS, ids=str)
def test_completions_follow_the_stated_law(bug) -> None:
    scene = SCENES[bug.scene]
    assert p_value(completions(bug.callable, scene, 300), emitted_law(bug, scene)) > LEVEL


def completions(decoder: StagedDecoder, scene, n):
    rng = np.random.default_rng(3)
    steps = [lambda c, f=f: f(tuple(c.tolist())) for f in (scene.target_next, scene.draft_next)]
    arguments = (PROMPT, *steps, scene.gamma, scene.length, rng)
    return [
        tuple(decoder(*arguments, eos_token_id=scene.eos_token_id)[0].tolist()) for _ in range(n)
    ]


def test_completions_of_the_default_loop_follow_the_target() -> None:
    scene = SCENES["eos"]
    law = target_law(ZOO["past_eos"], scene)
    assert p_value(completions(StagedDecoder(), scene, 800), law) > LEVEL
    assert p_value(completions(ZOO["past_eos"].callable, scene, 800), law) < LEVEL


def test_blocks_of_a_bug_do_not_follow_the_standard_law() -> None:
    law = block_law(STANDARD, ROWS, DRAFTS)
    assert p_value(in_a_batch(ZOO["abs_residual"], ROWS, DRAFTS, 4000), law) < LEVEL
    assert p_value(singly(ZOO["abs_residual"], ROWS, DRAFTS, 800), law) < LEVEL


@pytest.mark.parametrize("bug", BATCHED, ids=str)
def test_batches_follow_the_stated_law(bug) -> None:
    assert p_value(completed_batches(bug, 300), batch_law(bug.callable)) > LEVEL


def completed_batches(bug, n):
    """Blocks of two rows with one and two drafts, each completed from its own target rows."""
    rng = np.random.default_rng(4)
    short, long = DISJOINT_ROWS
    target = np.array(
        [[*short.target, short.bonus, short.bonus], [*long.target, long.bonus]], dtype=float
    )
    draft = np.array([[*short.draft, *short.draft], [*long.draft]])
    samples = []
    for _ in range(n):
        tokens = np.array([drafts(rows, 1, rng)[0] for rows in draft])
        emitted, _ = bug.callable(target, draft, tokens, rng, draft_lengths=np.array([1, 2]))
        samples.append(
            tuple(
                completed([int(t) for t in ids if t != -1], laws[: size + 1], rng)
                for ids, laws, size in zip(emitted, target, (1, 2), strict=True)
            )
        )
    return samples


def completed(ids, laws, rng):
    return (*ids, *(int(rng.choice(len(law), p=law)) for law in laws[len(ids) :]))


@pytest.mark.parametrize("bug", [*VERIFIERS, *DECODERS], ids=str)
def test_only_the_members_that_say_so_ignore_the_generator(bug) -> None:
    ignores = "replay" in bug.expected_check
    assert (run_once(bug) == run_once(bug)) is not ignores


def run_once(bug):
    if bug.kind is Kind.DECODE:
        return completions(bug.callable, SCENES[bug.scene], 10)
    return singly(bug, ROWS, DRAFTS, 15)


def test_a_uniform_of_one_makes_the_closed_test_emit_an_impossible_id() -> None:
    class Largest:
        """Stands for a generator whose next double rounds to 1 in float32."""

        def random(self) -> float:
            return 1 - 2.0**-53

    verify = ZOO["closed_uniform"].callable
    emitted, n_accepted = verify(ROWS, ROWS[:2], np.array([0, 1]), Largest())
    assert n_accepted == 0
    assert emitted == [4]
