"""One block: accepted prefix, correction, bonus, the edges of the accept test, refusals."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from specverify.errors import InvalidInputError
from specverify.sampler.batched import verify_blocks_from_uniforms
from specverify.sampler.verify import accepted_prefix, speculative_verify
from specverify.strategies import blocks

TARGET = [[0.5, 0.5, 0.0], [0.2, 0.3, 0.5]]
DRAFT = [[0.25, 0.25, 0.5]]


class Scripted:
    """A generator that gives the uniforms that it is told to."""

    def __init__(self, *values: float) -> None:
        self.values = list(values)

    def random(self, size: tuple[int, ...] = ()) -> np.ndarray:
        count = int(np.prod(size))
        taken, self.values = self.values[:count], self.values[count:]
        return np.asarray(taken).reshape(size)


def verify(target, draft, tokens, *uniforms: float) -> tuple[list[int], int]:
    generator = Scripted(*uniforms)
    emitted, n_accepted = speculative_verify(
        np.array(target), np.array(draft), np.array(tokens), generator
    )
    assert generator.values == [], "one uniform a test and one for the last token"
    return emitted.tolist(), n_accepted


def test_all_accepted_earns_a_bonus_from_the_last_row() -> None:
    assert verify(TARGET, DRAFT, [0], 0.999, 0.45) == ([0, 1], 1)


def test_a_rejected_draft_is_corrected_from_the_residual() -> None:
    assert verify(TARGET, DRAFT, [2], 0.0, 0.3) == ([0], 0)
    assert verify(TARGET, DRAFT, [2], 0.0, 0.7) == ([1], 0)


def test_nothing_is_drawn_after_the_first_rejection() -> None:
    target = [[0.5, 0.5], [0.5, 0.5], [1.0, 0.0]]
    draft = [[0.25, 0.75], [0.5, 0.5]]
    assert verify(target, draft, [1, 0], 0.7, 0.1) == ([0], 0)


def test_the_test_is_strict() -> None:
    # Accept when u < p / q = 1/2: not at 1/2, and a forbidden token not even at 0.
    target, draft = [[0.25, 0.75], [1.0, 0.0]], [[0.5, 0.5]]
    assert verify(target, draft, [0], np.nextafter(0.5, 0), 0.0)[1] == 1
    assert verify(target, draft, [0], 0.5, 0.0)[1] == 0
    assert verify([[0.0, 1.0], [1.0, 0.0]], draft, [0], 0.0, 0.0) == ([1], 0)


def test_a_forbidden_token_is_refused_even_if_the_draft_forbids_it_too() -> None:
    assert verify([[0.0, 1.0], [1.0, 0.0]], [[0.0, 1.0]], [0], 0.0, 0.0) == ([1], 0)


def test_no_drafts_is_a_plain_step() -> None:
    assert verify([[0.25, 0.75]], np.empty((0, 2)), np.empty(0, dtype=int), 0.3) == ([1], 0)


@given(blocks((1, 6), (0, 4)), st.integers(0, 2**32))
def test_structure_numpy_and_torch(block, seed) -> None:
    as_torch = [torch.from_numpy(part) for part in block]
    for parts, generator in [
        (block, np.random.default_rng(seed)),
        (as_torch, torch.Generator().manual_seed(seed)),
    ]:
        emitted, n_accepted = speculative_verify(*parts, generator)
        assert type(emitted) is type(parts[0])
        assert isinstance(n_accepted, int)
        assert emitted.shape == (n_accepted + 1,)
        assert emitted[:n_accepted].tolist() == block.draft_tokens[:n_accepted].tolist()
        assert block.target_probs[n_accepted, int(emitted[-1])] > 0


def test_arguments_are_left_alone() -> None:
    parts = [np.array(TARGET), np.array(DRAFT), np.array([2])]
    for part in parts:
        part.flags.writeable = False
    speculative_verify(*parts, np.random.default_rng(0))


def test_works_without_a_generator() -> None:
    emitted, _ = speculative_verify(torch.tensor(TARGET), torch.tensor(DRAFT), torch.tensor([0]))
    assert emitted[0] == 0
    emitted, _ = speculative_verify(np.array(TARGET), np.array(DRAFT), np.array([0]))
    assert emitted[0] == 0


def test_one_uniform_is_asked_for_each_test() -> None:
    asked = []

    def next_uniform() -> float:
        asked.append(len(asked))
        return 0.6

    target, draft = np.array([[0.5, 0.5]] * 4), np.array([[0.5, 0.5], [0.1, 0.9], [0.5, 0.5]])
    assert accepted_prefix(target, draft, [0, 1, 0], next_uniform) == 1
    assert asked == [0, 1]


@pytest.mark.parametrize(
    ("target", "draft", "tokens", "problem"),
    [
        ([0.5, 0.5], DRAFT, [0], r"target_probs: needs shape \(gamma \+ 1, vocab\), got \(2,\)"),
        (np.empty((0, 3)), DRAFT, [0], "target_probs: needs shape"),
        (np.empty((2, 0)), np.empty((1, 0)), [0], "target_probs: empty vocabulary"),
        (TARGET, [[0.5, 0.5]], [0], r"draft_probs: needs shape \(1, 3\) beside .* got \(1, 2\)"),
        (TARGET, TARGET, [0, 1], r"draft_probs: needs shape \(1, 3\)"),
        (TARGET, DRAFT, [0, 1], r"draft_tokens: needs shape \(1,\)"),
        (TARGET, DRAFT, [0.0], "draft_tokens: needs integer ids, got float64"),
        (TARGET, DRAFT, [3], r"draft_tokens: ids must lie in \[0, 3\), got 3"),
        (TARGET, DRAFT, [-1], r"draft_tokens: ids must lie in \[0, 3\), got -1"),
        ([[0.5, 0.6, 0.0], TARGET[1]], DRAFT, [0], "target_probs: a row does not sum to one"),
        (TARGET, [[1.5, -0.5, 0.0]], [0], "draft_probs: has a negative entry, -0.5"),
        (TARGET, [[np.nan, 0.5, 0.5]], [0], "draft_probs: has NaN"),
        ([[np.inf, 0.0, 0.0], TARGET[1]], DRAFT, [0], "target_probs: has NaN or infinite"),
    ],
)
def test_refuses(target, draft, tokens, problem) -> None:
    parts = [np.asarray(target), np.asarray(draft), np.asarray(tokens)]
    with pytest.raises(InvalidInputError, match=problem):
        speculative_verify(*parts, np.random.default_rng(0))
    with pytest.raises(InvalidInputError, match=problem):
        speculative_verify(*(torch.from_numpy(part) for part in parts))


def test_refuses_mixed_libraries() -> None:
    with pytest.raises(InvalidInputError, match="arrays of one library"):
        speculative_verify(np.array(TARGET), torch.tensor(DRAFT), np.array([0]))
    with pytest.raises(InvalidInputError, match="generator"):
        speculative_verify(
            torch.tensor(TARGET), torch.tensor(DRAFT), torch.tensor([0]), np.random.default_rng()
        )


def test_a_rejection_without_any_residual_falls_back_to_the_target() -> None:
    # The draft lies one unit in the last place above the target: rejection is possible, barely,
    # and nothing is left to correct from.
    target = [[0.5, 0.5], [0.0, 1.0]]
    draft = [[np.nextafter(0.5, 1), 0.5]]
    uniform = np.nextafter(1, 0)
    assert verify(target, draft, [0], uniform, 0.75) == ([1], 0)
    result = verify_blocks_from_uniforms(
        np.array([target]),
        np.array([draft]),
        np.array([[0]]),
        accept_uniforms=np.array([[uniform]]),
        token_uniforms=np.array([0.75]),
    )
    assert result.emitted.tolist() == [[1, -1]]
