"""Batched cached decoding: every row is what it would have been alone."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from specverify.errors import InvalidInputError
from specverify.models.gpt import GPTModel
from specverify.models.tabular import TabularModel
from specverify.sampler.cached import decode_cached
from specverify.sampler.cached_batch import decode_cached_batch
from specverify.sampler.protocols import BatchedKVCache
from specverify.warping import SamplingParams

RNG = np.random.default_rng(7)
TARGET = TabularModel.random(5, 2, RNG)
DRAFT = TARGET.perturbed(RNG, 0.6)
PROMPTS = [[1, 2], [3], [0, 4, 1, 2, 2, 3], [2, 2, 1]]


class RowsOfTokens:
    """Remembers ids, so that a stale or missing one shows."""

    def __init__(self, batch_size: int, max_length: int) -> None:
        self.lengths = np.zeros(batch_size, dtype=np.int64)
        self.ids = np.full((batch_size, max_length), -1, dtype=np.int64)

    def keep(self, rows) -> None:
        self.lengths, self.ids = self.lengths[rows], self.ids[rows]


class BatchTable:
    """A tabular model behind the cached protocol; counts the tokens that its calls read."""

    def __init__(self, model: TabularModel, max_length: int = 100) -> None:
        self.model, self.max_length, self.vocab_size = model, max_length, model.vocab_size
        self.read: list[tuple[int, int]] = []

    def new_cache(self, batch_size: int = 1) -> RowsOfTokens:
        return RowsOfTokens(batch_size, self.max_length)

    def place(self, cache, row: int) -> int:
        return int(cache.lengths[row])

    def forward(self, tokens, cache):
        self.read.append(tokens.shape)
        logits = np.empty((*tokens.shape, self.vocab_size))
        for row, ids in enumerate(tokens):
            start = self.place(cache, row)
            assert start + len(ids) <= self.max_length, "the window overflows"
            cache.ids[row, start : start + len(ids)] = ids
            for j in range(len(ids)):
                context = cache.ids[row, : start + j + 1]
                with np.errstate(divide="ignore"):
                    logits[row, j] = np.log(self.model.next_probs(context))
        cache.lengths += tokens.shape[1]
        return logits


class ShortestRowTable(BatchTable):
    """The bug that batches have: all rows stand where the shortest one does."""

    def place(self, cache, row: int) -> int:
        return int(cache.lengths.min())


def small_gpt(seed: int, *, scale: float = 6) -> GPTModel:
    generator = torch.Generator().manual_seed(seed)
    model = GPTModel(17, 16, 2, 2, 40, generator=generator).double()
    with torch.no_grad():
        for weights in model.parameters():
            weights.mul_(scale)
    return model.eval()


def generators(seed: int):
    return [np.random.default_rng([seed, row]) for row in range(len(PROMPTS))]


def alone(target, draft, seed: int, **options):
    return [
        decode_cached(target, draft, prompt, generator=source, **options)
        for prompt, source in zip(PROMPTS, generators(seed), strict=True)
    ]


def same(batch, rows) -> list[bool]:
    return [
        tokens.tolist() == expected.tolist() and trace == expected_trace
        for (tokens, trace), (expected, expected_trace) in zip(batch, rows, strict=True)
    ]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("eos", [None, 3])
def test_rows_are_independent(seed, eos) -> None:
    options = {"gamma": 3, "max_new_tokens": 20, "eos_token_id": eos}
    models = BatchTable(TARGET), BatchTable(DRAFT)
    batch = decode_cached_batch(*models, PROMPTS, generators=generators(seed), **options)
    rows = alone(BatchTable(TARGET), BatchTable(DRAFT), seed, **options)
    assert all(same(batch, rows))
    assert len({tuple(block.n_accepted for block in trace) for _, trace in batch}) > 1
    if eos is not None:
        assert len({len(tokens) for tokens, _ in batch}) > 1


def test_rows_that_stand_elsewhere_are_seen() -> None:
    """Negative control of the comparison above."""
    options = {"gamma": 3, "max_new_tokens": 20}
    models = ShortestRowTable(TARGET), BatchTable(DRAFT)
    batch = decode_cached_batch(*models, PROMPTS, generators=generators(0), **options)
    assert not all(same(batch, alone(BatchTable(TARGET), BatchTable(DRAFT), 0, **options)))


@pytest.mark.parametrize("seed", range(3))
def test_rows_of_a_gpt_are_independent(seed) -> None:
    target, draft = small_gpt(1), small_gpt(1, scale=5)
    sampling = SamplingParams(temperature=0.7, top_k=9)
    options = {"gamma": 4, "max_new_tokens": 30, "sampling": sampling, "eos_token_id": 5}
    batch = decode_cached_batch(target, draft, PROMPTS, generators=generators(seed), **options)
    assert all(same(batch, alone(target, draft, seed, **options)))


@pytest.mark.parametrize(("target_room", "draft_room"), [(16, 16), (16, 40), (40, 9), (40, 4)])
def test_stays_within_both_windows(target_room, draft_room) -> None:
    models = BatchTable(TARGET, target_room), BatchTable(DRAFT, draft_room)
    options = {"gamma": 4, "max_new_tokens": 11}
    for seed in range(4):
        batch = decode_cached_batch(*models, PROMPTS, generators=generators(seed), **options)
        assert all(same(batch, alone(*models, seed, **options)))


def test_one_call_reads_all_rows() -> None:
    models = BatchTable(TARGET), BatchTable(DRAFT)
    decode_cached_batch(*models, [[1, 2]] * 3, gamma=3, max_new_tokens=1)
    assert models[0].read == [(3, 2)]
    assert models[1].read == []


def test_a_batch_of_transformers_models() -> None:
    from transformers import GPT2Config, GPT2LMHeadModel

    from specverify.models.transformers_model import TransformersModel

    torch.manual_seed(0)
    target, draft = (
        TransformersModel(
            GPT2LMHeadModel(
                GPT2Config(
                    vocab_size=17,
                    n_positions=40,
                    n_embd=16,
                    n_layer=layers,
                    n_head=2,
                    initializer_range=0.5,
                    bos_token_id=None,
                    eos_token_id=None,
                )
            ).double()
        )
        for layers in (2, 1)
    )
    options = {"gamma": 3, "max_new_tokens": 14, "eos_token_id": 5}
    batch = decode_cached_batch(target, draft, PROMPTS, generators=generators(2), **options)
    assert all(same(batch, alone(target, draft, 2, **options)))


def test_nothing_to_decode() -> None:
    models = BatchTable(TARGET), BatchTable(DRAFT)
    assert decode_cached_batch(*models, [], gamma=2, max_new_tokens=3) == []
    ((tokens, trace),) = decode_cached_batch(*models, [[1]], gamma=2, max_new_tokens=0)
    assert len(tokens) == len(trace) == 0


def test_the_caches_fit_the_protocol() -> None:
    assert isinstance(small_gpt(0).new_cache(2), BatchedKVCache)
    assert isinstance(RowsOfTokens(1, 2), BatchedKVCache)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"generators": [None]}, r"generators: needs one a prompt \(2\), got 1"),
        ({"prompts": [[0], []]}, "prompt: needs at least one token"),
        ({"gamma": 0}, "gamma: must be at least 1"),
        ({"max_new_tokens": 200}, "do not fit the target's window"),
        ({"draft": BatchTable(TabularModel.random(6, 0, RNG))}, "draft: has 6 tokens, but .* 5"),
    ],
)
def test_refuses(changes, problem) -> None:
    arguments = {"draft": BatchTable(DRAFT), "prompts": [[0], [1]]}
    arguments |= {"gamma": 2, "max_new_tokens": 5} | changes
    with pytest.raises(InvalidInputError, match=problem):
        decode_cached_batch(BatchTable(TARGET), **arguments)
