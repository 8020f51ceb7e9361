"""Short passes in numpy: the numbers of torch's passes, on the same cache."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from specverify.errors import InvalidInputError
from specverify.models.gpt import GPTModel
from specverify.models.pairs import load_pair

LENGTH = 40


def small_gpt(width: int = 16) -> GPTModel:
    generator = torch.Generator().manual_seed(width)
    model = GPTModel(50, width, 2, 2, LENGTH, generator=generator).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator), alpha=0.2)
    return model.eval()


def logits_in_pieces(model: GPTModel, tokens, pieces, *, on_host: bool) -> torch.Tensor:
    cache = model.new_cache()
    assert cache.host is not None
    if not on_host:
        cache.host = None
    starts = np.cumsum([0, *pieces])[:-1]
    parts = [
        model.forward(tokens[start : start + n], cache)
        for start, n in zip(starts, pieces, strict=True)
    ]
    return torch.cat(parts)


# At a width of 128 products of several tokens go to torch.
@pytest.mark.parametrize("width", [16, 128])
@pytest.mark.parametrize("pieces", [[1] * 12, [20, 1, 5, 2, 8, 4], [8, 8, 8, 8, 8]], ids=str)
def test_agrees_with_torch(width, pieces) -> None:
    model = small_gpt(width)
    tokens = np.random.default_rng(0).integers(0, 50, sum(pieces))
    with torch.no_grad():
        whole = model(tokens)
    for on_host in (True, False):
        parts = logits_in_pieces(model, tokens, pieces, on_host=on_host)
        torch.testing.assert_close(parts, whole, rtol=0, atol=1e-10)


def test_a_wrong_cache_is_seen() -> None:
    """Negative control: the comparison above notices one forgotten key."""
    model = small_gpt()
    tokens = np.random.default_rng(0).integers(0, 50, 12)
    cache = model.new_cache()
    model.forward(tokens[:11], cache)
    cache.stored_heads[0][0, :, :, 5] = 0
    with torch.no_grad():
        whole = model(tokens)
    assert float((model.forward(tokens[11:], cache) - whole[11:]).abs().max()) > 1e-4


def test_overwrites_what_was_rolled_back() -> None:
    model = small_gpt()
    kept, dropped, fresh = np.random.default_rng(1).integers(0, 50, (3, 6))
    cache = model.new_cache()
    model.forward(np.concatenate([kept, dropped[:2]]), cache)
    model.forward(dropped[2:], cache)
    cache.lengths[:] = 6
    after = model.forward(fresh, cache)
    with torch.no_grad():
        whole = model(np.concatenate([kept, fresh]))
    torch.testing.assert_close(after, whole[6:], rtol=0, atol=1e-10)


def test_sees_weights_that_change_in_place() -> None:
    model = small_gpt()
    cache = model.new_cache()
    with torch.no_grad():
        model.h[0].mlp.c_fc.bias.add_(1.0)
        whole = model(np.array([3, 4]))
    torch.testing.assert_close(model.forward(np.array([3, 4]), cache), whole, rtol=0, atol=1e-10)


def test_the_shipped_draft_is_small_and_its_target_is_not() -> None:
    pair = load_pair()
    assert pair.draft.new_cache().host is not None
    assert pair.target.new_cache().host is None


@pytest.mark.parametrize(
    ("model", "batch_size"),
    [
        (GPTModel(50, 16, 2, 1, 8), 2),
        (GPTModel(50, 16, 2, 1, 8).bfloat16(), 1),
        (GPTModel(50, 512, 2, 1, 8), 1),
    ],
    ids=["batch", "half", "wide"],
)
def test_leaves_the_rest_to_torch(model, batch_size) -> None:
    assert model.new_cache(batch_size).host is None


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda model, cache: model.forward(np.array([1, -1]), cache), "must not be negative"),
        (lambda model, cache: model.forward(np.zeros((2, 1), int), cache), "2 rows for 1 cached"),
        (lambda model, cache: model.forward(np.zeros(3, int), cache), "3 after 38 are more than"),
        (lambda model, cache: cache.lengths.fill(39) or model.forward([0], cache), "of the stored"),
    ],
    ids=["negative", "batch", "window", "lengths"],
)
def test_refuses(change, problem) -> None:
    model = small_gpt()
    cache = model.new_cache()
    model.forward(np.zeros(LENGTH - 2, int), cache)
    with pytest.raises(InvalidInputError, match=problem):
        change(model, cache)
