"""GPTModel: transformers' logits, both ways, and a cache that changes nothing."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from specverify.errors import InvalidInputError
from specverify.models.gpt import GPTModel
from specverify.models.step import model_step
from specverify.models.weights import load_gpt, save_gpt
from specverify.sampler.protocols import CachedModel
from specverify.warping import SamplingParams

# (vocab_size, embed_dim, num_heads, num_layers, max_seq_len)
SHAPES = [(32, 16, 2, 2, 24), (97, 24, 3, 1, 40), (50, 40, 5, 3, 17)]
TOLERANCE = {torch.float32: 5e-5, torch.float64: 1e-10}


def random_gpt(shape=SHAPES[0], *, dtype=torch.float64, seed=0) -> GPTModel:
    """Weights far from the small initial ones, biases and norms included."""
    generator = torch.Generator().manual_seed(seed)
    model = GPTModel(*shape, generator=generator)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator), alpha=0.2)
    return model.to(dtype).eval()


def random_tokens(model: GPTModel, *shape: int) -> torch.Tensor:
    return torch.randint(model.vocab_size, shape, generator=torch.Generator().manual_seed(7))


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_transformers_reads_ours(shape, dtype, tmp_path) -> None:
    ours = random_gpt(shape, dtype=dtype)
    save_gpt(ours, tmp_path, dtype=dtype)
    theirs = GPT2LMHeadModel.from_pretrained(tmp_path, dtype=dtype).eval()
    tokens = random_tokens(ours, 3, shape[-1])
    with torch.no_grad():
        difference = (ours(tokens) - theirs(tokens).logits).abs().max()
    assert ours(tokens).abs().max() > 1
    assert float(difference) <= TOLERANCE[dtype]


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_we_read_transformers(shape, dtype, tmp_path) -> None:
    vocab_size, embed_dim, num_heads, num_layers, length = shape
    torch.manual_seed(1)
    config = GPT2Config(
        vocab_size=vocab_size,
        n_embd=embed_dim,
        n_head=num_heads,
        n_layer=num_layers,
        n_positions=length,
        initializer_range=0.3,
        layer_norm_epsilon=1e-4,
        bos_token_id=None,
        eos_token_id=None,
    )
    theirs = GPT2LMHeadModel(config).to(dtype).eval()
    theirs.save_pretrained(tmp_path)
    ours = load_gpt(tmp_path, dtype=dtype)
    tokens = random_tokens(ours, 3, length)
    with torch.no_grad():
        difference = (ours(tokens) - theirs(tokens).logits).abs().max()
    assert float(difference) <= TOLERANCE[dtype]


def test_half_precision_files_widen_without_loss(tmp_path) -> None:
    model = random_gpt(dtype=torch.float32)
    save_gpt(model, tmp_path / "a", dtype=torch.float16)
    wide = load_gpt(tmp_path / "a")
    save_gpt(wide, tmp_path / "b", dtype=torch.float16)
    for first, second in zip(wide.parameters(), load_gpt(tmp_path / "b").parameters(), strict=True):
        assert torch.equal(first, second)


def test_it_is_a_cached_model() -> None:
    assert isinstance(random_gpt(), CachedModel)


@pytest.mark.parametrize("pieces", [(12,), (1,) * 12, (5, 1, 4, 2)], ids=str)
def test_the_cache_changes_nothing(pieces) -> None:
    model = random_gpt()
    tokens = random_tokens(model, 2, 12)
    cache = model.new_cache(2)
    parts = [model.forward(piece.numpy(), cache) for piece in tokens.split(pieces, dim=1)]
    assert cache.lengths.tolist() == [12, 12]
    torch.testing.assert_close(torch.cat(parts, 1), model(tokens), rtol=0, atol=1e-12)


def test_rolled_back_rows_of_unequal_length_forget() -> None:
    """Each row keeps its own prefix; what lay beyond it must not be seen again."""
    model = random_gpt()
    first, second = random_tokens(model, 2, 3, 8)
    cache = model.new_cache(3)
    model.forward(first, cache)
    kept = [8, 2, 5]
    cache.lengths[:] = kept
    continued = model.forward(second[:, :4], cache)
    assert cache.lengths.tolist() == [12, 6, 9]
    for row, length in enumerate(kept):
        alone = torch.cat([first[row, :length], second[row, :4]])
        torch.testing.assert_close(continued[row], model(alone)[length:], rtol=0, atol=1e-12)


def test_forgetting_too_little_is_seen() -> None:
    """Negative control of the test above: one stale token more changes the logits."""
    model = random_gpt()
    first, second = random_tokens(model, 2, 1, 8)
    cache = model.new_cache()
    model.forward(first, cache)
    cache.lengths[:] = 6
    stale = model.forward(second[:, :1], cache)
    alone = torch.cat([first[0, :5], second[0, :1]])
    assert float((stale[0, 0] - model(alone)[-1]).detach().abs().max()) > 1e-3


@pytest.mark.parametrize(
    "wrap", [lambda model: model, lambda model: lambda ids: Output(model(ids))]
)
def test_step_is_the_softmax_of_the_last_row(wrap) -> None:
    model = random_gpt()
    tokens = random_tokens(model, 9)
    law = model_step(wrap(model))(tokens)
    torch.testing.assert_close(law, model(tokens)[-1].softmax(-1))
    cold = model_step(wrap(model), sampling=SamplingParams(temperature=0.5))(tokens.numpy())
    torch.testing.assert_close(cold, (2 * model(tokens)[-1]).softmax(-1))
    assert not law.requires_grad


class Output:
    def __init__(self, logits: torch.Tensor) -> None:
        self.logits = logits


def test_the_initial_weights_follow_the_generator() -> None:
    first, again, other = (
        GPTModel(*SHAPES[0], generator=torch.Generator().manual_seed(seed)) for seed in (1, 1, 2)
    )
    assert torch.equal(first.wte.weight, again.wte.weight)
    assert not torch.equal(first.wte.weight, other.wte.weight)


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        (lambda m: GPTModel(8, 10, 3, 1, 4), "embed_dim: 10 is no multiple of 3"),
        (lambda m: GPTModel(0, 10, 2, 1, 4), "vocab_size: must be at least 1"),
        (lambda m: m(torch.zeros(25, dtype=torch.int64)), "25 are more than the model's 24"),
        (lambda m: m.forward(np.zeros((1, 25), int), m.new_cache()), "25 after 0 are more than"),
        (lambda m: m.forward(np.zeros((1, 2), int), m.new_cache(2)), "1 rows for 2 cached"),
        (
            lambda m: m.forward(np.zeros((1, 2), int), ahead(m)),
            r"lengths \[3\] of the stored \[0\]",
        ),
    ],
)
def test_refuses_bad_input(call, problem) -> None:
    with pytest.raises(InvalidInputError, match=problem):
        call(random_gpt())


def ahead(model: GPTModel):
    cache = model.new_cache()
    cache.lengths[:] = 3
    return cache
