"""Cached decoding: equal to decoding without caches, rolled back exactly, within every window."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from specverify.errors import InvalidInputError
from specverify.models.gpt import GPTModel
from specverify.models.step import model_step
from specverify.models.tabular import TabularModel
from specverify.sampler.cached import decode_cached, decode_plain_cached
from specverify.sampler.cached_parts import laws_on_host
from specverify.sampler.decode import autoregressive_decode, speculative_decode
from specverify.sampler.protocols import CachedModel, KVCache
from specverify.warping import SamplingParams, warp_logits


class TokenCache:
    """Remembers ids, so that a stale or missing one shows."""

    def __init__(self, batch_size: int, max_length: int) -> None:
        self.lengths = np.zeros(batch_size, dtype=np.int64)
        self.ids = np.full((batch_size, max_length), -1, dtype=np.int64)


class CachedTable:
    """A tabular model behind the cached protocol; counts what it is asked to read."""

    def __init__(self, model: TabularModel, max_length: int = 100, dtype=np.float64) -> None:
        self.model, self.max_length, self.dtype = model, max_length, dtype
        self.vocab_size = model.vocab_size
        self.read: list[int] = []

    def new_cache(self, batch_size: int = 1) -> TokenCache:
        return TokenCache(batch_size, self.max_length)

    def forward(self, tokens, cache):
        batch, count = tokens.shape
        self.read.append(count)
        logits = np.empty((batch, count, self.vocab_size))
        for b in range(batch):
            start = cache.lengths[b]
            assert start + count <= self.max_length, "the window overflows"
            cache.ids[b, start : start + count] = tokens[b]
            for j in range(count):
                context = cache.ids[b, : start + j + 1]
                assert (context >= 0).all()
                with np.errstate(divide="ignore"):
                    logits[b, j] = np.log(self.model.next_probs(context))
        cache.lengths += count
        return logits.astype(self.dtype)


RNG = np.random.default_rng(11)
TARGET = TabularModel.random(5, 2, RNG)
DRAFT = TARGET.perturbed(RNG, 0.6)


def small_gpt(seed: int, *, layers: int = 2, scale: float = 6) -> GPTModel:
    generator = torch.Generator().manual_seed(seed)
    model = GPTModel(17, 16, 2, layers, 40, generator=generator).double()
    with torch.no_grad():
        for weights in model.parameters():
            weights.mul_(scale)  # far from uniform laws, so that drafts are rejected, too
    return model.eval()


def test_the_models_fit_the_protocol() -> None:
    model = small_gpt(0)
    assert isinstance(model, CachedModel)
    assert isinstance(model.new_cache(), KVCache)
    assert isinstance(CachedTable(TARGET), CachedModel)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("eos", [None, 3])
def test_equals_the_loop_without_caches(seed, eos) -> None:
    cached, trace = decode_cached(
        CachedTable(TARGET),
        CachedTable(DRAFT),
        [1, 2],
        gamma=3,
        max_new_tokens=20,
        generator=np.random.default_rng(seed),
        eos_token_id=eos,
    )
    expected, expected_trace = speculative_decode(
        np.array([1, 2]),
        TARGET.step("numpy"),
        DRAFT.step("numpy"),
        3,
        20,
        np.random.default_rng(seed),
        eos_token_id=eos,
        shrink_gamma=True,
    )
    assert cached.tolist() == expected.tolist()
    assert trace == expected_trace


@pytest.mark.parametrize("seed", range(3))
def test_equals_the_loop_without_caches_on_a_gpt(seed) -> None:
    target, draft = small_gpt(1), small_gpt(1, scale=5)
    sampling = SamplingParams(temperature=0.7, top_k=9)
    cached, trace = decode_cached(
        target,
        draft,
        [4, 5, 6],
        gamma=4,
        max_new_tokens=30,
        sampling=sampling,
        generator=np.random.default_rng(seed),
    )
    steps = [model_step(model, sampling=sampling) for model in (target, draft)]
    expected, expected_trace = speculative_decode(
        np.array([4, 5, 6]),
        *[lambda ids, step=step: step(ids).numpy() for step in steps],
        4,
        30,
        np.random.default_rng(seed),
        shrink_gamma=True,
    )
    assert cached.tolist() == expected.tolist()
    assert trace == expected_trace
    assert 0 < trace.accepted < trace.tested


def test_the_baseline_equals_the_loop_without_caches() -> None:
    cached = decode_plain_cached(
        CachedTable(TARGET), [0], max_new_tokens=25, generator=np.random.default_rng(2)
    )
    expected = autoregressive_decode(
        np.array([0]), TARGET.step("numpy"), 25, np.random.default_rng(2)
    )
    assert cached.tolist() == expected.tolist()


def test_greedy_speculation_equals_greedy_decoding() -> None:
    greedy = SamplingParams(temperature=0)
    target, draft = small_gpt(3), small_gpt(4, layers=1)
    fast, trace = decode_cached(target, draft, [1], gamma=3, max_new_tokens=35, sampling=greedy)
    slow = decode_plain_cached(target, [1], max_new_tokens=35, sampling=greedy)
    assert fast.tolist() == slow.tolist()
    assert trace.kept == 35


def test_each_token_is_read_once_unless_it_was_rejected() -> None:
    target, draft = CachedTable(TARGET), CachedTable(TARGET)
    _, trace = decode_cached(
        target, draft, [0, 1, 2], gamma=3, max_new_tokens=12, generator=np.random.default_rng(0)
    )
    assert trace.acceptance == 1
    # The prompt and three drafts, then the bonus and three drafts; the draft reads its own third
    # draft only together with the bonus.
    assert target.read == [6, 4, 4]
    assert draft.read == [3, 1, 1, 2, 1, 1, 2, 1, 1]


@pytest.mark.parametrize(("target_room", "draft_room"), [(15, 15), (15, 40), (40, 9), (40, 4)])
def test_stays_within_both_windows(target_room, draft_room) -> None:
    target, draft = CachedTable(TARGET, target_room), CachedTable(DRAFT, draft_room)
    for seed in range(5):
        tokens, trace = decode_cached(
            target,
            draft,
            [0] * 5,
            gamma=4,
            max_new_tokens=11,
            generator=np.random.default_rng(seed),
        )
        assert len(tokens) == trace.kept == 11
        assert all(block.kept == len(block.emitted) for block in trace)
        if draft_room == 4:
            assert trace.drafted == 0


def test_overlaps_are_recorded_on_request() -> None:
    options = {"gamma": 3, "max_new_tokens": 10}
    pair = CachedTable(TARGET), CachedTable(DRAFT)
    _, trace = decode_cached(*pair, [0], generator=np.random.default_rng(1), **options)
    assert all(block.acceptance_rates == () for block in trace)
    tokens, trace = decode_cached(
        *pair, [0], generator=np.random.default_rng(1), record_rates=True, **options
    )
    text = [0]
    for block in trace:
        assert len(block.acceptance_rates) == len(block.proposed)
        for n, rate in enumerate(block.acceptance_rates):
            context = text + list(block.proposed[:n])
            overlap = np.minimum(TARGET.next_probs(context), DRAFT.next_probs(context)).sum()
            assert rate == pytest.approx(overlap)
        text += block.emitted
    assert text[1:] == tokens.tolist()


def test_a_torch_generator_seeds_it_too() -> None:
    runs = [
        decode_cached(
            CachedTable(TARGET),
            CachedTable(DRAFT),
            [0],
            gamma=2,
            max_new_tokens=30,
            generator=torch.Generator().manual_seed(seed),
        )[0].tolist()
        for seed in (1, 1, 2)
    ]
    assert runs[0] == runs[1] != runs[2]


def test_half_precision_logits() -> None:
    model = small_gpt(5).bfloat16()
    tokens, _ = decode_cached(
        model, model, [1], gamma=2, max_new_tokens=10, generator=np.random.default_rng(0)
    )
    assert len(tokens) == 10
    narrow = CachedTable(TARGET, dtype=np.float16)
    assert len(decode_plain_cached(narrow, [1], max_new_tokens=5)) == 5


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"gamma": 0}, "gamma: must be at least 1"),
        ({"max_new_tokens": -1}, "max_new_tokens: must be at least 0"),
        ({"max_new_tokens": 100}, "max_new_tokens: 2 prompt tokens and 100 new ones do not fit"),
        ({"prompt": []}, "prompt: needs at least one token"),
        ({"prompt": [5]}, r"prompt: ids must lie in \[0, 5\), got 5"),
        ({"draft": CachedTable(TabularModel.random(6, 0, RNG))}, "draft: has 6 tokens, but .* 5"),
    ],
)
def test_refuses(changes, problem) -> None:
    arguments = {"draft": CachedTable(DRAFT), "prompt": [0, 1], "gamma": 2, "max_new_tokens": 5}
    arguments |= changes
    with pytest.raises(InvalidInputError, match=problem):
        decode_cached(CachedTable(TARGET), **arguments)


def test_a_completion_that_just_fits() -> None:
    target = CachedTable(TARGET, 20)
    tokens, _ = decode_cached(target, CachedTable(DRAFT, 20), [0] * 6, gamma=4, max_new_tokens=15)
    assert len(tokens) == 15


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("sampling", [SamplingParams(), SamplingParams(temperature=0.5, top_k=3)])
def test_laws_on_host_are_those_of_warping(dtype, sampling) -> None:
    logits = np.random.default_rng(0).normal(size=(4, 9)).astype(dtype) * 20
    logits[1, 2:] = -np.inf
    expected = warp_logits(logits, sampling)
    for scores in (logits, torch.from_numpy(logits)):
        laws = laws_on_host(scores, sampling)
        tolerance = 4 * float(np.finfo(dtype).eps)
        np.testing.assert_allclose(laws, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_laws_on_host_refuse_scores_that_are_no_numbers(bad) -> None:
    logits = np.full((2, 3), -np.inf)
    logits[0], logits[1, 1] = 0.0, bad
    with pytest.raises(InvalidInputError, match="logits"):
        laws_on_host(logits, SamplingParams())
