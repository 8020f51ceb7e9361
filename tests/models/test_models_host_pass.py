"""Short passes in numpy: the numbers of torch's passes, on the same cache."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from specverify.errors import InvalidInputError
from specverify.models import host_weights
from specverify.models.gpt import GPTModel
from specverify.models.host_pass import HostPass
from specverify.models.pairs import load_pair

LENGTH = 40


def small_gpt(width: int = 16) -> GPTModel:
    generator = torch.Generator().manual_seed(width)
    model = GPTModel(50, width, 2, 2, LENGTH, generator=generator).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator), alpha=0.2)
    return model.eval()


def logits_in_pieces(model: GPTModel, tokens, pieces, monkeypatch, *, on_host: bool):
    cache = model.new_cache()
    monkeypatch.setattr(HostPass, "takes", lambda rows: on_host)
    starts = np.cumsum([0, *pieces])[:-1]
    parts = [
        model.forward(tokens[start : start + n], cache)
        for start, n in zip(starts, pieces, strict=True)
    ]
    return torch.cat(parts)


@pytest.mark.parametrize("width", [16, 128])
@pytest.mark.parametrize("pieces", [[1] * 12, [20, 1, 5, 2, 8, 4], [8, 8, 8, 8, 8]], ids=str)
@pytest.mark.parametrize("tables", [0, host_weights._MOST_IN_TABLES])
def test_agrees_with_torch(width, pieces, tables, monkeypatch) -> None:
    monkeypatch.setattr(host_weights, "_MOST_IN_TABLES", tables)
    model = small_gpt(width)
    tokens = np.random.default_rng(0).integers(0, 50, sum(pieces))
    with torch.no_grad():
        whole = model(tokens)
    for on_host in (True, False):
        parts = logits_in_pieces(model, tokens, pieces, monkeypatch, on_host=on_host)
        torch.testing.assert_close(parts, whole, rtol=0, atol=1e-10)


def test_rows_of_unequal_length_in_either_kind_of_pass(monkeypatch) -> None:
    """Host and torch take turns on one cache, whose rows are cut back by unequal numbers."""
    model, rng = small_gpt(), np.random.default_rng(3)
    cache, texts = model.new_cache(3), [[], [], []]
    for number, kept in enumerate(([4, 4, 4], [7, 2, 5], [8, 6, 1], [2, 2, 2], [5, 3, 4])):
        fresh = rng.integers(0, 50, (3, 4))
        monkeypatch.setattr(HostPass, "takes", lambda rows, on_host=number % 2 == 0: on_host)
        starts = [len(text) for text in texts]
        logits = model.forward(fresh, cache)
        for row, text in enumerate(texts):
            text.extend(fresh[row].tolist())
            with torch.no_grad():
                whole = model(np.array(text))[starts[row] :]
            torch.testing.assert_close(logits[row], whole, rtol=0, atol=1e-10)
            del text[kept[row] :]
        cache.lengths[:] = [len(text) for text in texts]


def test_keeps_some_rows() -> None:
    model = small_gpt()
    first, second = np.random.default_rng(4).integers(0, 50, (2, 3, 5))
    cache = model.new_cache(3)
    model.forward(first, cache)
    cache.lengths[:] = [5, 3, 4]
    cache.keep([2, 0])
    assert cache.lengths.tolist() == [4, 5]
    logits = model.forward(second[:2], cache)
    for row, text in enumerate((first[2, :4], first[0])):
        with torch.no_grad():
            whole = model(np.concatenate([text, second[row]]))[len(text) :]
        torch.testing.assert_close(logits[row], whole, rtol=0, atol=1e-10)


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


def test_a_new_cache_sees_weights_that_changed() -> None:
    model = small_gpt()
    model.new_cache()
    with torch.no_grad():
        model.h[0].mlp.c_fc.bias.add_(1.0)
        whole = model(np.array([3, 4]))
    logits = model.forward(np.array([3, 4]), model.new_cache())
    torch.testing.assert_close(logits, whole, rtol=0, atol=1e-10)
    with torch.no_grad():
        single = model.float()(np.array([3, 4]))
    logits = model.forward(np.array([3, 4]), model.new_cache())
    torch.testing.assert_close(logits, single, rtol=0, atol=1e-5)


def test_weights_that_torch_does_not_count_changes_of() -> None:
    with torch.inference_mode():
        model = small_gpt()
        for _ in range(2):
            model.h[0].mlp.c_fc.bias.add_(1.0)
            whole = model(np.array([3, 4]))
            logits = model.forward(np.array([3, 4]), model.new_cache())
            torch.testing.assert_close(logits, whole, rtol=0, atol=1e-10)


def test_a_model_as_loaded_in_single_precision() -> None:
    pair = load_pair()
    for model in (pair.target, pair.draft):
        tokens = np.random.default_rng(5).integers(0, model.vocab_size, 30)
        with torch.no_grad():
            whole = model(tokens)
        cache = model.new_cache()
        parts = torch.cat([model.forward(piece, cache) for piece in np.split(tokens, [9, 10, 15])])
        difference = (parts.softmax(-1) - whole.softmax(-1)).abs().sum(-1).max()
        assert float(difference) < 1e-4


@pytest.mark.parametrize(
    ("weights", "suits"),
    [
        ([torch.zeros(2, 3), torch.zeros(4)], True),
        ([torch.zeros(2, dtype=torch.float64)], True),
        ([torch.zeros(2, dtype=torch.bfloat16)], False),
        ([torch.zeros(2), torch.zeros(2, dtype=torch.float64)], False),
        ([torch.zeros(1).expand(2**26)], False),
        ([torch.zeros(2, device="meta")], False),
    ],
    ids=["single", "double", "half", "mixed", "large", "elsewhere"],
)
def test_which_models_it_is_for(weights, suits) -> None:
    assert HostPass.suits(weights) is suits


def test_half_precision_is_left_to_torch() -> None:
    model = GPTModel(50, 16, 2, 1, 8).bfloat16()
    logits = model.forward(np.array([3, 4]), model.new_cache())
    assert logits.dtype == torch.bfloat16


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
