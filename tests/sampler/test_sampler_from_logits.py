"""From logits: the tokens that ``verify_blocks`` gives for their softmax; the same exact law."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.special import softmax

from specverify.errors import InvalidInputError
from specverify.exact import enumerate_law
from specverify.sampler import batched, from_logits
from specverify.sampler.batched import BlockBatch, verify_blocks
from specverify.sampler.from_logits import verify_blocks_from_logits
from specverify.theory.block_law import block_law


def logits(vocab: int, *, batch: int = 40, gamma: int = 3):
    generator = torch.Generator().manual_seed(vocab)
    target = 2 * torch.randn(batch, gamma + 1, vocab, generator=generator, dtype=torch.float64)
    noise = torch.randn(batch, gamma, vocab, generator=generator, dtype=torch.float64)
    draft = target[:, :gamma] + 0.7 * noise
    target[:, :, 1] = -np.inf  # an excluded token, which is drafted now and then
    tokens = torch.multinomial(draft.softmax(-1).flatten(0, 1), 1, generator=generator)
    return target, draft, tokens.view(batch, gamma)


@pytest.fixture(params=["in turn", "all at once"])
def way(request, monkeypatch) -> str:
    """Both ways through the code, whatever the sizes."""
    monkeypatch.setattr(from_logits, "_MANY", 0 if request.param == "all at once" else 10**9)
    monkeypatch.setattr(from_logits, "_LONG", 10**9)
    monkeypatch.setattr(batched, "_MANY", 0)
    return str(request.param)


def as_numpy(*parts):
    return [part.numpy() for part in parts]


def assert_same(found, expected) -> None:
    np.testing.assert_array_equal(found.emitted, expected.emitted)
    np.testing.assert_array_equal(found.n_accepted, expected.n_accepted)


@pytest.mark.parametrize("vocab", [3, 50, 5001])
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_as_from_probabilities(vocab, temperature, way) -> None:
    target, draft, tokens = logits(vocab)
    laws = (target / temperature).softmax(-1), (draft / temperature).softmax(-1)
    expected = verify_blocks(*laws, tokens, torch.Generator().manual_seed(1))
    found = verify_blocks_from_logits(
        target, draft, tokens, torch.Generator().manual_seed(1), temperature=temperature
    )
    assert found.emitted.dtype == found.n_accepted.dtype == torch.int64
    assert_same(found, expected)
    assert len(found.n_accepted.unique()) > 2


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_numpy(temperature, way) -> None:
    target, draft, tokens = as_numpy(*logits(5001))
    found = verify_blocks_from_logits(
        target, draft, tokens, np.random.default_rng(1), temperature=temperature
    )
    laws = [softmax(scores / temperature, axis=-1) for scores in (target, draft)]
    assert isinstance(found.emitted, np.ndarray)
    assert_same(found, verify_blocks(*laws, tokens, np.random.default_rng(1)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_narrower_numbers(dtype, way) -> None:
    target, draft = (scores.to(dtype) for scores in logits(20)[:2])
    tokens = logits(20)[2]
    laws = target.softmax(-1), draft.softmax(-1)
    expected = verify_blocks(*laws, tokens, torch.Generator().manual_seed(1), validate=False)
    assert_same(
        verify_blocks_from_logits(target, draft, tokens, torch.Generator().manual_seed(1)), expected
    )


LENGTHS = torch.arange(40) % 4


@pytest.mark.parametrize("convert", [lambda *parts: parts, as_numpy])
def test_what_stands_beyond_a_rows_length_is_ignored(convert, way) -> None:
    target, draft, tokens = logits(30)
    generator = torch.Generator().manual_seed if convert is not as_numpy else np.random.default_rng
    expected = verify_blocks(
        *convert(target.softmax(-1), draft.softmax(-1), tokens),
        generator(2),
        draft_lengths=LENGTHS.tolist(),
    )
    for block, length in enumerate(LENGTHS.tolist()):
        target[block, length + 1 :], draft[block, length:] = torch.nan, torch.nan
        tokens[block, length:] = -1
    parts = convert(target, draft, tokens)
    found = verify_blocks_from_logits(*parts, generator(2), draft_lengths=LENGTHS.tolist())
    assert_same(found, expected)
    assert set((LENGTHS.numpy() - np.asarray(found.n_accepted)).tolist()) >= {0, 1, 2}


def test_a_length_too_short_by_one_is_seen(way) -> None:
    target, draft, tokens = logits(30)
    full, short = (
        verify_blocks_from_logits(
            target, draft, tokens, torch.Generator().manual_seed(2), draft_lengths=lengths
        )
        for lengths in (LENGTHS, (LENGTHS - 1).clamp(min=0))
    )
    assert (full.emitted != short.emitted).any()


def law_of_one_block():
    """Exact law of a batch of one, drafts drawn from the draft; and the closed form."""
    target, draft, _ = logits(3, batch=1, gamma=2)
    generator = torch.Generator()

    def run() -> tuple[int, ...]:
        tokens = torch.multinomial(draft[0].softmax(-1), 1, generator=generator)[:, 0]
        emitted = verify_blocks_from_logits(target, draft, tokens[None], generator).emitted
        return tuple(token for token in emitted[0].tolist() if token >= 0)

    expected = block_law(target[0].softmax(-1).numpy(), draft[0].softmax(-1).numpy())
    ours = enumerate_law(run).probabilities
    return 0.5 * sum(abs(ours.get(key, 0.0) - expected.get(key, 0.0)) for key in {*ours, *expected})


def test_the_law_is_exact(way) -> None:
    assert law_of_one_block() < 1e-12


def test_a_correction_from_the_target_is_seen(monkeypatch) -> None:
    monkeypatch.setattr(from_logits, "excess", lambda target, draft, out: target)
    assert law_of_one_block() > 0.01


def test_nothing_is_copied_to_the_host_without_validation() -> None:
    # A meta tensor has no values: anything that asked for one would raise.
    target, draft = torch.empty(6, 4, 9, device="meta"), torch.empty(6, 3, 9, device="meta")
    tokens = torch.empty(6, 3, dtype=torch.int64, device="meta")
    for options in ({}, {"temperature": 0.5, "draft_lengths": tokens[:, 0]}):
        found = verify_blocks_from_logits(target, draft, tokens, validate=False, **options)
        assert found.emitted.shape == (6, 4)
    with pytest.raises((NotImplementedError, RuntimeError)):
        verify_blocks_from_logits(target, draft, tokens)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_on_a_gpu_as_on_the_host() -> None:
    target, draft, tokens = logits(5001)
    generator = torch.Generator().manual_seed
    expected = verify_blocks_from_logits(target, draft, tokens, generator(1))
    parts = (part.cuda() for part in (target, draft, tokens))
    found = verify_blocks_from_logits(*parts, generator(1))
    assert_same(BlockBatch(*(part.cpu() for part in found)), expected)


def accepts(uniform: float, *, temperature: float = 1.0) -> bool:
    """Whether a draft is accepted that both models hardly ever give; the ratio is exp(-1)."""
    target = temperature * np.array([[[0, -201], [0, 0]]], dtype=np.float32)
    draft = temperature * np.array([[[0, -200]]], dtype=np.float32)
    script = Scripted([uniform, 0.5])
    found = verify_blocks_from_logits(
        target, draft, np.array([[1]]), script, temperature=temperature
    )
    return bool(found.n_accepted[0])


class Scripted:
    """A numpy-like generator that gives the uniforms that it is told to."""

    def __init__(self, values: list[float]) -> None:
        self.values = values

    def random(self, size: tuple[int, ...]) -> np.ndarray:
        return np.reshape(self.values, size)


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_the_ratio_of_two_probabilities_too_small_for_the_dtype(temperature) -> None:
    assert accepts(0.36, temperature=temperature)
    assert not accepts(0.37, temperature=temperature)


def test_without_logarithms_that_ratio_is_lost(monkeypatch) -> None:
    monkeypatch.setattr(from_logits, "_FEW_DIGITS", -1.0)
    with pytest.raises(ZeroDivisionError):
        accepts(0.36)


@pytest.mark.parametrize("temperature", [1e-310, 1e-3])
def test_next_to_no_temperature(temperature, way) -> None:
    target = torch.tensor([[[3.0, 5.0, 4.0], [2e30, 0.0, 1.0]]])
    draft = torch.tensor([[[3.0, 5.0, 4.0]]])
    found = verify_blocks_from_logits(
        target, draft, torch.tensor([[1]]), temperature=temperature, validate=False
    )
    assert found.emitted.tolist() == [[1, 0]]


def test_a_rejection_without_excess_takes_the_target(way) -> None:
    """The softmax of 0 and 1 gives the first 0.269."""
    scores = np.array([[[0.0, 1.0, -np.inf], [0.0, 0.0, 0.0]]])
    for uniform, token in ((0.26, 0), (0.28, 1), (0.999, 1)):
        script = Scripted([0.0, uniform])
        found = verify_blocks_from_logits(scores, scores[:, :1], np.array([[2]]), script)
        assert found.emitted.tolist() == [[token, -1]]


def test_scores_far_apart_do_not_overflow() -> None:
    target = torch.tensor([[[0.0, 900.0], [0.0, 0.0]]])
    draft = torch.tensor([[[900.0, 0.0]]])
    found = verify_blocks_from_logits(target, draft, torch.tensor([[0]]))
    assert found.emitted.tolist() == [[1, -1]]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"temperature": 0.0}, "temperature: must be positive"),
        ({"target_logits": torch.full((1, 2, 3), torch.nan)}, "target_logits: needs rows"),
        ({"draft_logits": torch.full((1, 1, 3), -torch.inf)}, "draft_logits: needs rows"),
        ({"draft_tokens": torch.tensor([[3]])}, "draft_tokens: ids must lie"),
        ({"draft_lengths": [2]}, r"draft_lengths: must lie in \[0, 1\]"),
        ({"draft_lengths": [1, 1]}, r"draft_lengths: needs shape \(1,\)"),
        ({"draft_lengths": [0.5]}, "draft_lengths: needs integers"),
    ],
)
def test_refuses(change, said) -> None:
    good = {
        "target_logits": torch.zeros(1, 2, 3),
        "draft_logits": torch.zeros(1, 1, 3),
        "draft_tokens": torch.tensor([[0]]),
    }
    with pytest.raises(InvalidInputError, match=said):
        verify_blocks_from_logits(**(good | change))
