"""Pairs: where they come from, what is refused, and the bridge to transformers."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import torch
from transformers import GPT2LMHeadModel

from specverify.errors import InvalidInputError, MissingDependencyError, UnknownTargetError
from specverify.models.gpt import GPTModel
from specverify.models.pairs import load_model, load_pair, shipped_directory
from specverify.models.tokenizer import train_tokenizer
from specverify.models.transformers_model import TransformersModel
from specverify.models.weights import load_gpt, save_gpt
from specverify.sampler.protocols import CachedModel


def small_gpt(seed: int, vocab_size: int = 300) -> GPTModel:
    generator = torch.Generator().manual_seed(seed)
    model = GPTModel(vocab_size, 8, 2, 2, 32, generator=generator)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator), alpha=0.3)
    return model.eval()


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    place = tmp_path_factory.mktemp("pair")
    for seed, name in enumerate(("target", "big-draft")):
        save_gpt(small_gpt(seed), place / name)
    save_gpt(small_gpt(3), place / "draft", dtype=torch.float16)
    train_tokenizer("some text " * 500 + " ".join(map(str, range(3000))), 300).save(
        str(place / "tokenizer.json")
    )
    return place


def test_the_shipped_pair_loads_and_writes() -> None:
    pair = load_pair()
    assert (pair.target.vocab_size, pair.draft.vocab_size) == (1024, 1024)
    assert pair.tokenizer is not None
    ids = pair.tokenizer.encode("To be, or not")
    assert pair.tokenizer.decode(ids) == "To be, or not"
    target_cost, draft_cost = (
        sum(p.numel() for p in model.parameters()) for model in (pair.target, pair.draft)
    )
    assert draft_cost < target_cost / 5


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_the_shipped_target_has_transformers_logits(dtype) -> None:
    place = shipped_directory() / "target"
    ours, theirs = load_gpt(place, dtype=dtype), GPT2LMHeadModel.from_pretrained(place, dtype=dtype)
    tokens = torch.randint(0, 1024, (2, 256), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        difference = float((ours(tokens) - theirs.eval()(tokens).logits).abs().max())
    assert difference <= (5e-5 if dtype == torch.float32 else 1e-10)


def test_a_directory_has_its_drafts(directory) -> None:
    assert load_pair(directory).draft_source == directory / "big-draft"
    pair = load_pair(str(directory), draft="draft", dtype="float64")
    assert pair.draft_source == directory / "draft"
    assert pair.draft.wte.weight.dtype == torch.float64
    two = load_pair((directory / "target", directory / "big-draft"))
    assert isinstance(two.target, GPTModel)
    assert two.tokenizer is None


def test_vocabularies_must_agree(directory, tmp_path) -> None:
    save_gpt(small_gpt(0, vocab_size=301), tmp_path / "other")
    with pytest.raises(InvalidInputError, match=r"draft: .*other has 301 tokens, .* has 300"):
        load_pair((directory / "target", tmp_path / "other"))


def test_equal_sizes_are_not_equal_vocabularies(directory, tmp_path) -> None:
    for name, text in (("a", "some text " * 500), ("b", "more words " * 500)):
        save_gpt(small_gpt(0), tmp_path / name)
        text += " ".join(map(str, range(3000)))
        train_tokenizer(text, 300).save(str(tmp_path / name / "tokenizer.json"))
    with pytest.raises(InvalidInputError, match="another tokeniser"):
        load_pair((tmp_path / "a", tmp_path / "b"))


@pytest.mark.parametrize(
    ("arguments", "error", "problem"),
    [
        ({"dtype": "int64"}, InvalidInputError, "floating"),
        ({"dtype": "nonsense"}, InvalidInputError, "floating"),
        ({"draft": "none-such"}, UnknownTargetError, r"only \['big-draft', 'draft'\]"),
        ({"name": ("a", "b", "c")}, InvalidInputError, "one target and one draft"),
        ({"name": "/no/such/place"}, UnknownTargetError, "has no target/ directory"),
    ],
)
def test_refuses_bad_input(directory, arguments, error, problem) -> None:
    with pytest.raises(error, match=problem):
        load_pair(**{"name": directory, **arguments})


def test_an_unreachable_hub_is_told(directory, monkeypatch) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(UnknownTargetError, match=r"no/such-model.*could not be had from the model"):
        load_pair("no/such-model", draft=directory / "draft")


def test_without_transformers_the_message_says_how_to_get_it(directory, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    assert isinstance(load_pair(directory).target, GPTModel)
    with pytest.raises(MissingDependencyError, match=r"specdec-verify\[hf\]"):
        load_model("gpt2")
    with pytest.raises(MissingDependencyError, match="transformers is not installed"):
        TransformersModel(None)


@pytest.fixture(scope="module")
def wrapped(directory):
    """The same weights behind transformers, and as our own model."""
    theirs = GPT2LMHeadModel.from_pretrained(directory / "target", dtype=torch.float64)
    return TransformersModel(theirs), load_gpt(directory / "target", dtype=torch.float64)


def test_the_wrapper_is_a_cached_model(wrapped) -> None:
    theirs, ours = wrapped
    assert isinstance(theirs, CachedModel)
    assert (theirs.vocab_size, theirs.max_length) == (ours.vocab_size, ours.max_length)
    tokens = torch.arange(10)[None]
    torch.testing.assert_close(theirs(tokens), ours(tokens), rtol=0, atol=1e-10)


def test_the_wrapper_rolls_back_as_our_cache_does(wrapped) -> None:
    """Three calls with unequal rollbacks between them, columns that are cut and ones that stay."""
    rng = np.random.default_rng(4)
    models = [*wrapped]
    caches = [model.new_cache(3) for model in models]
    for kept in ([6, 2, 4], [9, 3, 4], [3, 1, 2]):
        tokens = rng.integers(0, 300, (3, 6))
        theirs, ours = (m.forward(tokens, c) for m, c in zip(models, caches, strict=True))
        torch.testing.assert_close(theirs, ours, rtol=0, atol=1e-10)
        for cache in caches:
            cache.lengths[:] = kept
    assert (
        caches[0].visible.shape[1] > 3
    )  # the last rollback is not carried out before it is needed


def test_a_forgotten_rollback_is_seen(wrapped) -> None:
    """Negative control: with one token kept too many the two no longer agree."""
    rng = np.random.default_rng(4)
    models = [*wrapped]
    caches = [model.new_cache() for model in models]
    for kept in (3, 4):
        tokens = rng.integers(0, 300, (1, 6))
        theirs, ours = (m.forward(tokens, c) for m, c in zip(models, caches, strict=True))
        for cache, length in zip(caches, (kept, 3), strict=True):
            cache.lengths[:] = length
    tokens = tokens[:, :1]
    theirs, ours = (m.forward(tokens, c) for m, c in zip(models, caches, strict=True))
    assert float((theirs - ours).detach().abs().max()) > 1e-3


@pytest.mark.parametrize(
    ("rows", "count", "lengths", "problem"),
    [
        (2, 1, [0], "2 rows for 1 cached"),
        (1, 33, [0], "33 after 0 are more than"),
        (1, 1, [4], r"lengths \[4\] of the stored \[0\]"),
    ],
)
def test_the_wrapper_refuses_bad_input(wrapped, rows, count, lengths, problem) -> None:
    theirs, _ = wrapped
    cache = theirs.new_cache()
    cache.lengths[:] = lengths
    with pytest.raises(InvalidInputError, match=problem):
        theirs.forward(np.zeros((rows, count), int), cache)
