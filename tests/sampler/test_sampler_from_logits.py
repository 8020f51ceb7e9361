"""From logits: the tokens that ``verify_blocks`` gives for their softmax; the same exact law."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from specverify.errors import InvalidInputError
from specverify.exact import enumerate_law
from specverify.sampler import from_logits
from specverify.sampler.batched import verify_blocks
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


@pytest.mark.parametrize("vocab", [3, 50, 5001])
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_as_from_probabilities(vocab, temperature) -> None:
    target, draft, tokens = logits(vocab)
    laws = (target / temperature).softmax(-1), (draft / temperature).softmax(-1)
    expected = verify_blocks(*laws, tokens, torch.Generator().manual_seed(1))
    found = verify_blocks_from_logits(
        target, draft, tokens, torch.Generator().manual_seed(1), temperature=temperature
    )
    assert torch.equal(found.emitted, expected.emitted)
    assert torch.equal(found.n_accepted, expected.n_accepted)
    assert len(found.n_accepted.unique()) > 2


def test_numpy_and_half_precision() -> None:
    target, draft, tokens = logits(20)
    arrays = [part.numpy() for part in (target, draft, tokens)]
    found = verify_blocks_from_logits(*arrays, np.random.default_rng(1))
    laws = [torch.from_numpy(part).softmax(-1).numpy() for part in arrays[:2]]
    expected = verify_blocks(*laws, arrays[2], np.random.default_rng(1))
    np.testing.assert_array_equal(found.emitted, expected.emitted)
    half = verify_blocks_from_logits(target.bfloat16(), draft.bfloat16(), tokens)
    assert half.emitted.shape == (40, 4)


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


def test_the_law_is_exact() -> None:
    assert law_of_one_block() < 1e-12


def test_a_correction_from_the_target_is_seen(monkeypatch) -> None:
    monkeypatch.setattr(from_logits, "_residual", lambda target, draft: target)
    assert law_of_one_block() > 0.01


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
