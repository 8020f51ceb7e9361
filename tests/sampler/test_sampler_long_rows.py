"""Long rows are drawn from in two steps: the same tokens as one running sum, and as one block."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from specverify.sampler import long_rows
from specverify.sampler.batched import verify_blocks_from_uniforms
from specverify.sampler.draws import categorical_from_uniforms, pick_token

BATCH, GAMMA = 60, 3


def blocks(vocab: int, dtype: type = np.float64):
    """Peaked rows with zeros, some drafts equal to their target, and uniforms."""
    rng = np.random.default_rng(vocab)
    rows = rng.exponential(size=(2, BATCH, GAMMA + 1, vocab)) ** 4
    rows[rng.random(rows.shape) < 0.3] = 0
    target, draft = rows / rows.sum(-1, keepdims=True)
    draft = 0.5 * draft + 0.5 * target
    draft[:5] = target[:5]
    tokens = np.argmax(draft[:, :GAMMA] * rng.exponential(size=(BATCH, GAMMA, vocab)), axis=-1)
    uniforms = rng.random((BATCH, GAMMA + 1))
    return (target.astype(dtype), draft[:, :GAMMA].astype(dtype), tokens), uniforms


def verified(parts, uniforms, lengths=None, convert=np.asarray, *, validate=True):
    return verify_blocks_from_uniforms(
        *map(convert, parts),
        accept_uniforms=convert(uniforms[:, :GAMMA]),
        token_uniforms=convert(uniforms[:, GAMMA]),
        draft_lengths=lengths,
        validate=validate,
    )


@pytest.mark.parametrize("vocab", [4096, 5001])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("convert", [np.asarray, torch.from_numpy])
def test_two_steps_give_the_tokens_of_one(vocab, dtype, convert, monkeypatch) -> None:
    parts, uniforms = blocks(vocab, dtype)
    lengths = np.random.default_rng(0).integers(0, GAMMA + 1, BATCH)
    found = verified(parts, uniforms, lengths, convert)
    monkeypatch.setattr(long_rows, "_LONG", 10**9)
    expected = verified(parts, uniforms, lengths, convert)
    np.testing.assert_array_equal(found.emitted, expected.emitted)
    np.testing.assert_array_equal(found.n_accepted, expected.n_accepted)
    assert len(np.unique(expected.n_accepted)) == GAMMA + 1


def test_a_residual_of_the_wrong_row_is_seen(monkeypatch) -> None:
    parts, uniforms = blocks(4096)
    expected = verified(parts, uniforms)
    monkeypatch.setattr(long_rows, "excess", lambda target, draft, out=None: abs(target - draft))
    assert (verified(parts, uniforms).emitted != expected.emitted).any()


def test_non_contiguous_and_half_precision_rows() -> None:
    parts, uniforms = blocks(4096)
    expected = verified(parts, uniforms)
    turned = [np.asfortranarray(part) for part in parts]
    np.testing.assert_array_equal(verified(turned, uniforms).emitted, expected.emitted)
    halves = [torch.from_numpy(part).to(torch.bfloat16) for part in parts[:2]]
    tokens = torch.from_numpy(parts[2])
    short, wide = (
        verified((*laws, tokens), uniforms, convert=torch.as_tensor, validate=False)
        for laws in (halves, [part.float() for part in halves])
    )
    assert torch.equal(short.emitted, wide.emitted)


def test_a_rejection_without_excess_takes_the_target() -> None:
    (target, _, tokens), uniforms = blocks(4096)
    target[:, :, :2] = 0
    target /= target.sum(-1, keepdims=True)
    tokens = np.zeros_like(tokens)  # the target never gives it: always rejected
    found = verified((target, target[:, :GAMMA], tokens), uniforms)
    expected = categorical_from_uniforms(target[:, 0], uniforms[:, GAMMA])
    np.testing.assert_array_equal(found.emitted[:, 0], expected)
    np.testing.assert_array_equal(found.n_accepted, 0)


@pytest.mark.parametrize("uniform", [0.0, np.nextafter(1, 0)])
def test_uniforms_at_the_ends_never_give_a_token_without_mass(uniform) -> None:
    weights = np.zeros((2, 5001))
    weights[0, [300, 4000]], weights[1, 5000] = 0.1, 0.7
    sums = np.stack([long_rows.stretch_sums(row) for row in weights])

    def stretch(chosen):
        ids = chosen[:, None] * 256 + np.arange(256)
        return np.where(ids < 5001, weights[[[0], [1]], np.minimum(ids, 5000)], 0)

    tokens = long_rows.draw_from_stretches(sums, np.full(2, uniform), stretch)
    assert (weights[[0, 1], tokens] > 0).all()


def test_every_token_has_its_own_interval_of_uniforms() -> None:
    weights = np.random.default_rng(3).exponential(size=4096) ** 3
    weights[np.random.default_rng(4).random(4096) < 0.3] = 0
    edges = np.cumsum(weights) / weights.sum()
    tokens = np.flatnonzero(weights > 1e-6)
    sums = np.tile(long_rows.stretch_sums(weights), (len(tokens), 1))

    def stretch(chosen):
        return weights[chosen[:, None] * 256 + np.arange(256)]

    inside = 1e-3 * weights[tokens] / weights.sum()
    for uniforms in (edges[tokens] - inside, np.r_[0, edges][tokens] + inside):
        drawn = long_rows.draw_from_stretches(sums, uniforms, stretch)
        np.testing.assert_array_equal(drawn, tokens)
    # With the edges of its neighbours the same check fails.
    beyond = long_rows.draw_from_stretches(sums, edges[tokens] + inside, stretch)
    assert (beyond[:-1] != tokens[:-1]).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("vocab", [300, 512, 5001])
def test_one_row_in_two_steps_gives_the_token_of_one(vocab, dtype, monkeypatch) -> None:
    monkeypatch.setattr(long_rows, "_LONG", 256)
    rng = np.random.default_rng(vocab)
    weights = (rng.exponential(size=vocab) ** 4).astype(dtype)
    weights[rng.random(vocab) < 0.3] = 0
    uniforms = [0.0, *rng.random(200), np.nextafter(1, 0)]
    tokens = [long_rows.pick_from_row(weights, uniform) for uniform in uniforms]
    assert tokens == [pick_token(weights, uniform) for uniform in uniforms]
    # Other uniforms have other tokens.
    assert tokens != [pick_token(weights, (uniform + 0.01) % 1) for uniform in uniforms]
