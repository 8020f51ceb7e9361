"""Exact laws of the sampler's own code, every random choice enumerated; bugs beside them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings

from specverify.exact import TracedGenerator, enumerate_law
from specverify.models.tabular import TabularModel
from specverify.sampler import batched, cached, decode, long_rows, one_by_one, verify
from specverify.sampler.batched import verify_blocks
from specverify.sampler.draws import sample_categorical
from specverify.strategies import blocks, tabular_rows
from specverify.theory.block_law import block_law
from specverify.theory.completion_law import completion_law, completion_law_with_eos

EXACT = 1e-12
BLOCK = (
    np.array([[0.5, 0.3, 0.2], [0.1, 0.2, 0.7], [0.7, 0.0, 0.3]]),
    np.array([[0.2, 0.2, 0.6], [0.5, 0.5, 0.0]]),
)
GENERATORS = {"numpy": TracedGenerator(), "torch": torch.Generator()}
RNG = np.random.default_rng(0)
TARGET = TabularModel.random(2, 1, RNG)
DRAFT = TARGET.perturbed(RNG, 0.6)
LENGTH = 3


def distance(fn, law) -> float:
    """Total variation between the exact law of ``fn()`` and ``law``."""
    traced = enumerate_law(fn)
    assert traced.unexplored_mass == 0
    ours = traced.probabilities
    return 0.5 * sum(abs(ours.get(key, 0.0) - law.get(key, 0.0)) for key in {*ours, *law})


def one_block(kind: str, laws=BLOCK):
    target, draft = (np.asarray(law) if kind == "numpy" else torch.from_numpy(law) for law in laws)
    generator = GENERATORS[kind]

    def run() -> tuple[int, ...]:
        tokens = sample_categorical(draft, generator)
        emitted, _ = verify.speculative_verify(target, draft, tokens, generator)
        return tuple(emitted.tolist())

    return run


def batch_of_one(kind: str):
    target, draft = (law if kind == "numpy" else torch.from_numpy(law) for law in BLOCK)
    generator = GENERATORS[kind]

    def run() -> tuple[int, ...]:
        tokens = sample_categorical(draft, generator)
        emitted, _ = verify_blocks(target[None], draft[None], tokens[None], generator)
        return tuple(token for token in emitted[0].tolist() if token >= 0)

    return run


def completion(kind: str, *, gamma: int = 2, target=TARGET, draft=DRAFT, **options):
    steps = target.step(kind), draft.step(kind)

    def run() -> tuple[int, ...]:
        tokens, _ = decode.speculative_decode(
            [0], *steps, gamma, LENGTH, GENERATORS[kind], **options
        )
        return tuple(tokens.tolist())

    return run


def target_law(model: TabularModel = TARGET) -> dict[tuple[int, ...], float]:
    joint = completion_law(model.next_probs, [0], LENGTH, model.vocab_size)
    return {index: float(mass) for index, mass in np.ndenumerate(joint)}


@pytest.mark.parametrize("kind", ["numpy", "torch"])
@pytest.mark.parametrize("make", [one_block, batch_of_one])
def test_blocks(kind, make) -> None:
    assert distance(make(kind), block_law(*BLOCK)) < EXACT


@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_blocks_as_in_a_large_batch(kind, monkeypatch) -> None:
    monkeypatch.setattr(batched, "_MANY", 0)
    assert distance(batch_of_one(kind), block_law(*BLOCK)) < EXACT


@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_blocks_whose_last_token_is_drawn_in_two_steps(kind, monkeypatch) -> None:
    monkeypatch.setattr(long_rows, "_LONG", 1)
    monkeypatch.setattr(long_rows, "_STRETCH", 2)  # of three tokens: the second is shorter
    assert distance(batch_of_one(kind), block_law(*BLOCK)) < EXACT
    # The likeliest stretch and the likeliest token in it have another law.
    monkeypatch.setattr(long_rows, "pick_token", lambda weights, uniform: int(weights.argmax()))
    assert distance(batch_of_one(kind), block_law(*BLOCK)) > 0.05


@settings(max_examples=15)
@given(blocks(vocab_size=(2, 3), gamma=(1, 2)))
def test_any_block(block) -> None:
    laws = block.target_probs, block.draft_probs
    assert distance(one_block("numpy", laws), block_law(*laws)) < EXACT


@pytest.mark.parametrize("kind", ["numpy", "torch"])
@pytest.mark.parametrize("shrink", [False, True])
def test_completions(kind, shrink) -> None:
    assert distance(completion(kind, shrink_gamma=shrink), target_law()) < EXACT


@settings(max_examples=10)
@given(tabular_rows(2, 1), tabular_rows(2, 1))
def test_any_completion(target, draft) -> None:
    models = TabularModel(target), TabularModel(draft)
    run = completion("numpy", gamma=1, target=models[0], draft=models[1])
    assert distance(run, target_law(models[0])) < EXACT


def test_completions_that_end() -> None:
    law = completion_law_with_eos(TARGET.next_probs, [0], LENGTH, 2, eos_token_id=1)
    assert distance(completion("numpy", eos_token_id=1), law) < EXACT
    assert distance(completion("numpy"), law) > 0.01


def test_the_baseline() -> None:
    def run() -> tuple[int, ...]:
        ids = decode.autoregressive_decode([0], TARGET.step(), LENGTH, GENERATORS["torch"])
        return tuple(ids.tolist())

    assert distance(run, target_law()) < EXACT


class _Cache:
    def __init__(self) -> None:
        self.lengths, self.ids = np.zeros(1, dtype=np.int64), np.zeros((1, 9), dtype=np.int64)


class _Cached:
    vocab_size, max_length = 2, 9

    def __init__(self, model: TabularModel) -> None:
        self.model = model

    def new_cache(self, batch_size: int = 1) -> _Cache:
        return _Cache()

    def forward(self, tokens, cache):
        start, count = cache.lengths[0], tokens.shape[1]
        cache.ids[0, start : start + count] = tokens[0]
        cache.lengths += count
        rows = [self.model.next_probs(cache.ids[0, : start + n + 1]) for n in range(count)]
        return np.log(rows)[None]


def test_cached_completions() -> None:
    def run() -> tuple[int, ...]:
        tokens, _ = cached.decode_cached(
            _Cached(TARGET),
            _Cached(DRAFT),
            [0],
            gamma=2,
            max_new_tokens=LENGTH,
            generator=GENERATORS["numpy"],
        )
        return tuple(tokens.tolist())

    assert distance(run, target_law()) < EXACT


def test_a_correction_from_the_target_is_seen(monkeypatch) -> None:
    monkeypatch.setattr(verify, "residual_distribution", lambda target, draft: target)
    assert distance(one_block("numpy"), block_law(*BLOCK)) > 0.05
    assert distance(one_block("torch"), block_law(*BLOCK)) > 0.05
    assert distance(completion("numpy", gamma=1), target_law()) > 0.01


@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_a_correction_from_the_target_is_seen_in_a_batch(kind, monkeypatch) -> None:
    monkeypatch.setattr(one_by_one, "excess", lambda target, draft: target)
    assert distance(batch_of_one(kind), block_law(*BLOCK)) > 0.05


def test_an_acceptance_test_that_is_too_kind_is_seen(monkeypatch) -> None:
    monkeypatch.setattr(verify, "accepted_prefix", lambda target, draft, tokens, _: len(tokens))
    assert distance(one_block("numpy"), block_law(*BLOCK)) > 0.05
