"""Batches: equal to one block at a time, ragged, empty, on any device, without a host copy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from specverify.errors import InvalidInputError
from specverify.sampler import batched
from specverify.sampler.batched import verify_blocks, verify_blocks_from_uniforms
from specverify.sampler.verify import speculative_verify
from specverify.strategies import Block, blocks
from specverify.strategies import uniforms as uniform_arrays


class Scripted:
    """A numpy-like generator that gives the uniforms that it is told to."""

    def __init__(self, values) -> None:
        self.values = iter(values)

    def random(self, size: tuple[int, ...] = ()) -> np.ndarray:
        return np.asarray([next(self.values) for _ in range(int(np.prod(size)))]).reshape(size)


@st.composite
def batches(draw, max_gamma: int = 3):
    """Blocks of one shape stacked, their lengths, and uniforms for them."""
    vocab, gamma = draw(st.integers(1, 5)), draw(st.integers(0, max_gamma))
    rows = draw(st.lists(blocks(vocab, gamma), min_size=1, max_size=4))
    lengths = draw(st.lists(st.integers(0, gamma), min_size=len(rows), max_size=len(rows)))
    stacked = Block(*(np.stack(parts) for parts in zip(*rows, strict=True)))
    drawn = draw(uniform_arrays((len(rows), gamma + 1)))
    return stacked, np.asarray(lengths), drawn


def in_batch(block, lengths, drawn, convert=np.asarray):
    gamma = block.draft_tokens.shape[1]
    return verify_blocks_from_uniforms(
        *(convert(part) for part in block),
        accept_uniforms=convert(drawn[:, :gamma]),
        token_uniforms=convert(drawn[:, gamma]),
        draft_lengths=convert(lengths),
    )


def row_by_row(block, lengths, drawn):
    """The same blocks through the single-block verifier, padded with -1."""
    gamma = block.draft_tokens.shape[1]
    emitted, counts = np.full((len(lengths), gamma + 1), -1), []
    for b, length in enumerate(lengths):
        parts = block[0][b, : length + 1], block[1][b, :length], block[2][b, :length]
        accept = drawn[b, :length].tolist()
        # The single verifier asks for the last token's uniform right after the first rejection.
        _, n_accepted = speculative_verify(*parts, Scripted([*accept, drawn[b, gamma]]))
        script = [*accept[: min(n_accepted + 1, length)], drawn[b, gamma]]
        tokens, again = speculative_verify(*parts, Scripted(script))
        assert again == n_accepted
        emitted[b, : len(tokens)] = tokens
        counts.append(n_accepted)
    return emitted, np.asarray(counts)


@pytest.fixture(params=["in turn", "together"], autouse=True, scope="module")
def way(request):
    """Every test goes through the code for few blocks, and through that for many."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batched, "_MANY", 10**9 if request.param == "in turn" else 0)
        yield request.param


@settings(max_examples=30)
@given(batches())
def test_batched_equals_single_under_shared_uniforms(batch) -> None:
    block, lengths, drawn = batch
    expected, counts = row_by_row(block, lengths, drawn)
    result = in_batch(block, lengths, drawn)
    np.testing.assert_array_equal(result.n_accepted, counts)
    np.testing.assert_array_equal(result.emitted, expected)


@settings(max_examples=30)
@given(batches())
def test_numpy_equals_torch_under_shared_uniforms(batch) -> None:
    ours = in_batch(*batch)
    theirs = in_batch(*batch, convert=torch.from_numpy)
    assert theirs.emitted.dtype == torch.int64
    assert theirs.n_accepted.dtype == torch.int64
    np.testing.assert_array_equal(ours.emitted, theirs.emitted)
    np.testing.assert_array_equal(ours.n_accepted, theirs.n_accepted)


@settings(max_examples=30)
@given(batches())
def test_what_stands_beyond_a_rows_length_is_ignored(batch) -> None:
    block, lengths, drawn = batch
    target, draft, tokens = (part.copy() for part in block)
    for b, length in enumerate(lengths):
        target[b, length + 1 :], draft[b, length:], tokens[b, length:] = np.nan, np.nan, -1
    expected = in_batch(block, lengths, drawn)
    for convert in (np.asarray, torch.from_numpy):
        result = in_batch(Block(target, draft, tokens), lengths, drawn, convert)
        np.testing.assert_array_equal(result.emitted, expected.emitted)
        np.testing.assert_array_equal(result.n_accepted, expected.n_accepted)


@pytest.mark.parametrize("batch", [0, 1])
@pytest.mark.parametrize("gamma", [0, 2])
def test_shapes_down_to_nothing(batch, gamma) -> None:
    target, draft = np.full((batch, gamma + 1, 3), 1 / 3), np.full((batch, gamma, 3), 1 / 3)
    tokens = np.zeros((batch, gamma), dtype=np.int64)
    parts = target, draft, tokens
    for arrays, generator in [
        (parts, np.random.default_rng(0)),
        ([torch.from_numpy(part) for part in parts], torch.Generator().manual_seed(0)),
    ]:
        result = verify_blocks(*arrays, generator, draft_lengths=[gamma] * batch)
        assert tuple(result.emitted.shape) == (batch, gamma + 1)
        assert result.n_accepted.tolist() == [gamma] * batch


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_dtypes(dtype) -> None:
    target = torch.tensor([[[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]]], dtype=dtype)
    draft = torch.tensor([[[0.25, 0.25, 0.5]]], dtype=dtype)
    accepted = verify_blocks(target, draft, torch.tensor([[0]]))
    assert accepted.emitted.tolist() == [[0, 2]]
    rejected = verify_blocks(target, draft, torch.tensor([[2]], dtype=torch.int32))
    assert rejected.emitted[0, 0] in (0, 1)
    assert rejected.emitted[0, 1] == -1


@pytest.mark.parametrize("convert", [np.asarray, torch.from_numpy])
@pytest.mark.parametrize(
    ("target", "draft", "uniform", "accepted"),
    [
        ([0.25, 0.75], [0.5, 0.5], np.nextafter(0.5, 0), 1),
        ([0.25, 0.75], [0.5, 0.5], 0.5, 0),
        ([0.0, 1.0], [0.5, 0.5], 0.0, 0),
        ([0.0, 1.0], [0.0, 1.0], 0.0, 0),
        # Rejected by a rounding error: the target stands in for a residual of nothing.
        ([0.5, 0.5], [np.nextafter(0.5, 1), 0.5], np.nextafter(1, 0), 0),
    ],
)
def test_the_test_is_strict(convert, target, draft, uniform, accepted) -> None:
    block = Block(np.array([[target, [1.0, 0.0]]]), np.array([[draft]]), np.array([[0]]))
    result = in_batch(block, np.array([1]), np.array([[uniform, 0.75]]), convert)
    assert result.n_accepted.tolist() == [accepted]
    assert result.emitted.tolist() == [[0, 0] if accepted else [1, -1]]


def test_seeds_repeat() -> None:
    block = np.full((50, 3, 4), 0.25), np.tile([0.1, 0.2, 0.3, 0.4], (50, 2, 1))
    tokens = np.tile([3, 2], (50, 1))
    first = verify_blocks(*block, tokens, np.random.default_rng(5))
    again = verify_blocks(*block, tokens, np.random.default_rng(5))
    np.testing.assert_array_equal(first.emitted, again.emitted)
    assert len(np.unique(first.n_accepted)) == 3


def test_a_large_batch_in_single_precision() -> None:
    generator = torch.Generator().manual_seed(0)
    target = torch.rand(4096, 5, 1024, generator=generator).softmax(-1)
    draft = torch.rand(4096, 4, 1024, generator=generator).softmax(-1)
    tokens = torch.randint(1024, (4096, 4), generator=generator)
    emitted, n_accepted = verify_blocks(target, draft, tokens, generator)
    lengths = (emitted >= 0).sum(dim=1)
    assert torch.equal(lengths, n_accepted + 1)
    assert int(n_accepted.min()) == 0
    assert int(n_accepted.max()) == 4


def test_nothing_is_copied_to_the_host_without_validation() -> None:
    # A meta tensor has no values: anything that asked for one would raise.
    target, draft = torch.empty(6, 4, 9, device="meta"), torch.empty(6, 3, 9, device="meta")
    tokens = torch.empty(6, 3, dtype=torch.int64, device="meta")
    result = verify_blocks(target, draft, tokens, validate=False)
    assert result.emitted.shape == (6, 4)
    with pytest.raises((NotImplementedError, RuntimeError)):
        verify_blocks(target, draft, tokens)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_on_a_gpu_as_on_the_host() -> None:
    generator = torch.Generator().manual_seed(0)
    target, draft = (torch.rand(40, n, 300, generator=generator).softmax(-1) for n in (4, 3))
    parts = target, draft, torch.randint(300, (40, 3), generator=generator)
    expected = verify_blocks(*parts, torch.Generator().manual_seed(1))
    found = verify_blocks(*(part.cuda() for part in parts), torch.Generator().manual_seed(1))
    assert torch.equal(found.emitted.cpu(), expected.emitted)


GOOD = np.full((2, 3, 4), 0.25), np.full((2, 2, 4), 0.25), np.zeros((2, 2), dtype=np.int64)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({0: np.full((3, 4), 0.25)}, r"target_probs: needs shape \(batch, gamma \+ 1, vocab\)"),
        ({1: np.full((2, 2, 5), 0.2)}, r"draft_probs: needs shape \(2, 2, 4\)"),
        ({1: np.full((1, 2, 4), 0.25)}, r"draft_probs: needs shape \(2, 2, 4\)"),
        ({2: np.zeros((2, 3), dtype=int)}, r"draft_tokens: needs shape \(2, 2\)"),
        ({2: np.full((2, 2), 4)}, r"draft_tokens: ids must lie in \[0, 4\), got 4"),
        ({0: np.full((2, 3, 4), 0.3)}, "target_probs: a row does not sum to one"),
        ({"draft_lengths": [1]}, r"draft_lengths: needs shape \(2,\), got \(1,\)"),
        ({"draft_lengths": [0, 3]}, r"draft_lengths: must lie in \[0, 2\]"),
        ({"draft_lengths": [0.0, 1.0]}, "draft_lengths: needs integers, got float64"),
    ],
)
def test_refuses(changes, problem) -> None:
    arrays = [changes.get(position, part) for position, part in enumerate(GOOD)]
    lengths = changes.get("draft_lengths")
    with pytest.raises(InvalidInputError, match=problem):
        verify_blocks(*arrays, np.random.default_rng(0), draft_lengths=lengths)


@pytest.mark.parametrize(
    ("accept", "token", "problem"),
    [
        (np.zeros((2, 3)), np.zeros(2), r"accept_uniforms: needs shape \(2, 2\)"),
        (np.zeros((2, 2)), np.zeros(3), r"token_uniforms: needs shape \(2,\)"),
        (np.ones((2, 2)), np.zeros(2), r"accept_uniforms: must lie in \[0, 1\)"),
        (np.zeros((2, 2)), np.full(2, np.nan), r"token_uniforms: must lie in \[0, 1\)"),
    ],
)
def test_refuses_uniforms(accept, token, problem) -> None:
    with pytest.raises(InvalidInputError, match=problem):
        verify_blocks_from_uniforms(*GOOD, accept_uniforms=accept, token_uniforms=token)
