"""The zoo and the references under the tracer: two independent enumerations must agree."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch

from specverify.bugs import CONTROLS, LOSSY, ZOO, Bug, Effect, Kind
from specverify.bugs.batches import DISJOINT_ROWS, StagedBatch, batch_law
from specverify.bugs.catalog import temperature
from specverify.bugs.laws import emitted_law, exact_tv, law_distance
from specverify.bugs.scenes import PROMPT, SCENES, Scene
from specverify.errors import UnsupportedRandomness
from specverify.exact import ExactLaw, TracedGenerator, enumerate_law
from specverify.exact.blocks import ExactCheck, check_exact
from specverify.exact.calling import Framework
from specverify.exact.decoding import check_exact_decode
from specverify.exact.scenario import BlockScenario
from specverify.models.tabular import TabularModel
from specverify.sampler.batched import verify_blocks
from specverify.sampler.decode import speculative_decode
from specverify.sampler.verify import speculative_verify

CLOSED_FORM, ROUNDING = 1e-9, 1e-12

# What the tracer must refuse, and the reason that it must give.
REFUSED = {
    "closed_uniform": "float at .*: a symbolic random value is needed as a number",
    "seed_ignored": "generator '_HIDDEN' .*: advanced: a draw was not intercepted",
    "hard_coded_temperature": "generator '_HIDDEN' .*: advanced: a draw was not intercepted",
}

FIXTURES = [
    dataclasses.replace(SCENES[name], gamma=gamma, length=gamma + 1)
    for name in ("P1", "P2", "P3")
    for gamma in (1, 2)
]


def members(kind: Kind, *, refused: bool = False) -> list[Bug]:
    everyone = {**ZOO, **CONTROLS, **LOSSY}
    return [b for n, b in everyone.items() if b.kind is kind and (n in REFUSED) is refused]


def checked(bug: Bug, scene: Scene) -> ExactCheck:
    scenario = BlockScenario(
        gamma=scene.gamma,
        vocab_size=scene.vocab_size,
        target=lambda prefix: scene.target_next(PROMPT + prefix),
        draft=lambda prefix: scene.draft_next(PROMPT + prefix),
    )
    return check_exact(bug.callable, scenario, framework="numpy")


def test_only_one_bug_of_the_law_is_refused() -> None:
    assert {n for n in REFUSED if ZOO[n].effect is Effect.LAW} == {"hard_coded_temperature"}


@pytest.mark.parametrize("bug", members(Kind.VERIFY), ids=str)
def test_traced_verifiers_lie_as_far_off_as_their_closed_form(bug: Bug) -> None:
    for scene in FIXTURES:
        expected, found = exact_tv(bug, scene), checked(bug, scene)
        assert found.law.complete
        assert abs(found.tv.low - expected) < CLOSED_FORM, scene
        assert abs(found.tv.high - expected) < CLOSED_FORM, scene


@pytest.mark.parametrize("name", [bug.name for bug in members(Kind.VERIFY) if bug.name in CONTROLS])
def test_controls_are_exact(name: str) -> None:
    assert all(checked(CONTROLS[name], scene).tv.high < ROUNDING for scene in FIXTURES)


@pytest.mark.parametrize("bug", members(Kind.VERIFY, refused=True), ids=str)
def test_what_cannot_be_traced_is_refused_by_name(bug: Bug) -> None:
    for scene in FIXTURES:
        with pytest.raises(UnsupportedRandomness, match=REFUSED[bug.name]):
            checked(bug, scene)


def test_a_hidden_generator_is_traced_once_it_is_in_the_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(temperature, "_HIDDEN", TracedGenerator())
    for scene in FIXTURES:
        found = checked(ZOO["hard_coded_temperature"], scene)
        assert abs(found.tv.low - exact_tv(ZOO["hard_coded_temperature"], scene)) < CLOSED_FORM


def decoded(bug: Bug, scene: Scene) -> ExactLaw:
    request = scene.request()
    generator = TracedGenerator()
    return enumerate_law(
        lambda: bug.callable(
            PROMPT,
            lambda tokens: request.target_next(tuple(tokens.tolist())),
            lambda tokens: request.draft_next(tuple(tokens.tolist())),
            scene.gamma,
            scene.length,
            generator,
            eos_token_id=scene.eos_token_id,
        )[0]
    )


# Thousands of paths, each a whole completion.
LONG = {"first_token_lost", "penalty_ignored", "penalty_twice"}
DECODERS = [
    pytest.param(b, marks=pytest.mark.study) if b.name in LONG else b for b in members(Kind.DECODE)
]


@pytest.mark.parametrize("bug", DECODERS, ids=str)
def test_traced_decode_loops_have_the_law_of_the_zoo(bug: Bug) -> None:
    scene = SCENES[bug.scene]
    found = decoded(bug, scene)
    assert found.complete
    assert law_distance(found.probabilities, emitted_law(bug, scene)) < CLOSED_FORM


def batch_run(bug: Bug) -> Any:
    """A batch with drafts drawn as the zoo draws them, each row continued by its target."""
    generator = TracedGenerator()
    gamma, vocab = max(len(rows.draft) for rows in DISJOINT_ROWS), 4
    target, draft = np.zeros((2, gamma + 1, vocab)), np.zeros((2, gamma, vocab))
    tokens, lengths = np.zeros((2, gamma), dtype=np.int64), np.zeros(2, dtype=np.int64)
    for row, rows in enumerate(DISJOINT_ROWS):
        own = [*rows.target, rows.bonus]
        lengths[row] = len(rows.draft)
        target[row, : len(own)], draft[row, : len(rows.draft)] = own, rows.draft
        tokens[row, : len(rows.draft)] = [generator.choice(vocab, p=law) for law in rows.draft]
    emitted, _ = bug.callable(target, draft, tokens, generator, draft_lengths=lengths)
    texts = []
    for rows, ids in zip(DISJOINT_ROWS, emitted.tolist(), strict=True):
        own = [*rows.target, rows.bonus]
        kept = [token for token in ids if token >= 0]
        rest = [int(generator.choice(vocab, p=law)) for law in own[len(kept) :]]
        texts.append(tuple(kept + rest))
    return tuple(texts)


@pytest.mark.parametrize("bug", members(Kind.BATCHED), ids=str)
def test_traced_batches_have_the_law_of_the_zoo(bug: Bug) -> None:
    found = enumerate_law(lambda: batch_run(bug))
    assert found.complete
    assert law_distance(found.probabilities, batch_law(bug.callable)) < CLOSED_FORM
    assert exact_tv(bug, SCENES["P1"]) == law_distance(batch_law(bug.callable), RIGHT_BATCH)


RIGHT_BATCH = batch_law(StagedBatch())


def scenario(vocab: int, gamma: int, *, zeros: bool) -> BlockScenario:
    rng = np.random.default_rng([vocab, gamma, zeros])
    rows = rng.dirichlet(np.ones(vocab), 2 * gamma + 1)
    if zeros:
        rows[:, rng.integers(vocab)] = 0.0
        rows[np.arange(2 * gamma + 1), rng.integers(vocab, size=2 * gamma + 1)] += 0.5
        rows /= rows.sum(axis=1, keepdims=True)
    return BlockScenario.from_rows(rows[: gamma + 1], rows[gamma + 1 :])


SMALL = [(v, g) for v in (2, 3, 4) for g in (1, 2)] + [(6, 1), (2, 3)]
LARGE = [(v, g) for v in range(2, 7) for g in (1, 2, 3) if (v, g) not in SMALL]
GRID = [*SMALL, *(pytest.param(v, g, marks=pytest.mark.study) for v, g in LARGE)]


@pytest.mark.parametrize(("vocab", "gamma"), GRID)
@pytest.mark.parametrize("framework", ["numpy", "torch"])
def test_the_references_are_exact(framework: Framework, vocab: int, gamma: int) -> None:
    torch.set_num_threads(1)
    for zeros in (False, True):
        block = scenario(vocab, gamma, zeros=zeros)
        single = check_exact(speculative_verify, block, framework=framework)
        batched = check_exact(verify_blocks, block, framework=framework, form="batched")
        assert single.law.complete
        assert max(single.tv.high, batched.tv.high) < ROUNDING


@pytest.mark.parametrize(("vocab", "gamma"), [(2, 1), pytest.param(3, 2, marks=pytest.mark.study)])
@pytest.mark.parametrize("framework", ["numpy", "torch"])
def test_the_reference_loop_is_exact(framework: Framework, vocab: int, gamma: int) -> None:
    rng = np.random.default_rng([vocab, gamma])
    target = TabularModel.random(vocab, 1, rng)
    draft = target.perturbed(rng, 0.5)
    found = check_exact_decode(
        speculative_decode,
        target,
        draft,
        prompt=PROMPT,
        gamma=gamma,
        max_new_tokens=3,
        framework=framework,
    )
    assert found.law.complete
    assert found.tv.high < ROUNDING
