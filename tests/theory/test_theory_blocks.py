"""Laws of one block: lengths by hand and by enumeration, and the theorem on its tokens."""

from __future__ import annotations

import itertools
from collections import defaultdict

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from specverify.distributions import acceptance_rate, residual_distribution
from specverify.errors import InvalidInputError
from specverify.theory.block_law import block_law, context_block_law, context_length_pmf
from specverify.theory.emitted_length import emitted_length_moments, emitted_length_pmf
from specverify.theory.expected_tokens import expected_accepted_tokens
from specverify.theory.schemes import SCHEMES, match_rate

# The fixture P1 of the zoo: acceptance .7, match rate .29.
TARGET = np.array([0.5, 0.3, 0.2])
DRAFT = np.array([0.2, 0.3, 0.5])


def random_rows(seed: int, rows: int, vocab_size: int):
    rng = np.random.default_rng(seed)
    laws = rng.dirichlet(np.full(vocab_size, 0.7), size=rows)
    laws[rng.random(laws.shape) < 0.2] = 0  # tokens that cannot occur
    laws[:, 0] += 1e-3
    return laws / laws.sum(axis=1, keepdims=True)


def block_law_by_coins(target, draft, *, bonus=True):
    """The sampler told as a story: draft, toss, correct. No formula is shared with the library."""
    gamma, vocab_size = draft.shape
    law = defaultdict(float)
    for tokens in itertools.product(range(vocab_size), repeat=gamma):
        mass = np.prod([draft[i, x] for i, x in enumerate(tokens)])
        if mass == 0:
            continue
        for i, x in enumerate(tokens):
            keep = min(1.0, target[i, x] / draft[i, x])
            if keep < 1:
                residual = residual_distribution(target[i], draft[i])
                for y in range(vocab_size):
                    law[(*tokens[:i], y)] += mass * (1 - keep) * residual[y]
            mass *= keep
        if bonus:
            for y in range(vocab_size):
                law[(*tokens, y)] += mass * target[gamma, y]
        else:
            law[tokens] += mass
    return law


@given(st.integers(0, 10**6), st.integers(1, 3), st.integers(1, 4), st.booleans())
def test_block_law_is_the_story_of_the_sampler(seed, gamma, vocab_size, bonus) -> None:
    target = random_rows(seed, gamma + 1, vocab_size)
    draft = random_rows(seed + 1, gamma, vocab_size)
    law = block_law(target, draft, bonus=bonus)
    story = block_law_by_coins(target, draft, bonus=bonus)
    assert sum(law.values()) == pytest.approx(1, abs=1e-12)
    for tokens in law.keys() | story.keys():
        assert law.get(tokens, 0.0) == pytest.approx(story[tokens], abs=1e-12)


@given(st.integers(0, 10**6), st.integers(1, 3), st.integers(1, 4), st.booleans())
def test_lengths_of_the_block_law_are_the_length_pmf(seed, gamma, vocab_size, bonus) -> None:
    target = random_rows(seed, gamma + 1, vocab_size)
    draft = random_rows(seed + 1, gamma, vocab_size)
    lengths = np.zeros(gamma + bonus)
    for tokens, mass in block_law(target, draft, bonus=bonus).items():
        lengths[len(tokens) - 1] += mass
    alphas = np.clip(acceptance_rate(target[:gamma], draft), 0, 1)
    np.testing.assert_allclose(lengths, emitted_length_pmf(alphas, bonus=bonus), atol=1e-12)


def test_block_law_takes_tensors() -> None:
    target, draft = np.array([TARGET, TARGET]), np.array([DRAFT])
    assert block_law(torch.tensor(target), torch.tensor(draft)) == block_law(target, draft)


def test_lengths_by_hand() -> None:
    np.testing.assert_allclose(emitted_length_pmf(0.5, 2), [0.5, 0.25, 0.25])
    np.testing.assert_allclose(emitted_length_pmf(0.5, 2, bonus=False), [0.5, 0.5])
    np.testing.assert_allclose(emitted_length_pmf([0.5, 0.2]), [0.5, 0.4, 0.1])
    np.testing.assert_allclose(emitted_length_pmf(1.0, 3), [0, 0, 0, 1])
    np.testing.assert_allclose(emitted_length_pmf(0.0, 3, bonus=False), [1, 0, 0])
    assert emitted_length_moments([0.5, 0.25, 0.25]) == pytest.approx((1.75, 0.6875))


@given(st.floats(0, 1), st.integers(1, 12), st.booleans())
def test_mean_length_is_the_closed_form(alpha, gamma, bonus) -> None:
    mean, _ = emitted_length_moments(emitted_length_pmf(alpha, gamma, bonus=bonus))
    assert mean == pytest.approx(expected_accepted_tokens(alpha, gamma, bonus=bonus), rel=1e-12)


def test_a_mixture_of_contexts_is_not_the_mixed_alpha() -> None:
    alphas = np.array([[0.9, 0.9], [0.1, 0.1]])
    mixture = emitted_length_pmf(alphas, weights=[0.5, 0.5])
    np.testing.assert_allclose(mixture, [0.5, 0.09, 0.41])
    pooled = emitted_length_pmf(0.5, 2)
    assert mixture @ [1, 2, 3] > pooled @ [1, 2, 3] + 0.1


def markov_rows(seed: int, vocab_size: int):
    table = random_rows(seed, vocab_size, vocab_size)
    return lambda tokens: table[tokens[-1]]


@given(st.integers(0, 10**6), st.integers(1, 3), st.booleans())
def test_context_dependent_lengths_sum_over_the_tree(seed, gamma, bonus) -> None:
    target, draft = markov_rows(seed, 3), markov_rows(seed + 1, 3)
    law = context_block_law(target, draft, [2], gamma, vocab_size=3, bonus=bonus)
    lengths = np.zeros(gamma + bonus)
    for tokens, mass in law.items():
        lengths[len(tokens) - 1] += mass
    pmf = context_length_pmf(target, draft, [2], gamma, vocab_size=3, bonus=bonus)
    np.testing.assert_allclose(pmf, lengths, atol=1e-12)


def test_context_dependent_lengths_by_hand() -> None:
    """Token 0 is followed by certain agreement, token 1 by certain disagreement."""
    target = {0: [1.0, 0.0], 1: [1.0, 0.0], 2: [0.5, 0.5]}
    draft = {0: [1.0, 0.0], 1: [0.0, 1.0], 2: [0.5, 0.5]}
    pmf = context_length_pmf(
        lambda tokens: np.array(target[tokens[-1]]),
        lambda tokens: np.array(draft[tokens[-1]]),
        [2],
        2,
        vocab_size=2,
    )
    np.testing.assert_allclose(pmf, [0, 0.5, 0.5])


def accept_with_target_probability(x: int) -> np.ndarray:
    """Emitted law given draft ``x`` of "keep x with probability p(x), else p without x"."""
    rest = np.where(np.arange(3) == x, 0, TARGET)
    emitted = (1 - TARGET[x]) * rest / rest.sum()
    emitted[x] += TARGET[x]
    return emitted


def test_sample_and_match_and_accept_with_p_are_one_law() -> None:
    for x in range(3):
        # Sample-and-match emits a target draw whatever x is, and goes on where they coincide.
        np.testing.assert_allclose(accept_with_target_probability(x), TARGET, atol=1e-15)
    assert match_rate(TARGET, DRAFT) == pytest.approx(0.29)
    assert acceptance_rate(TARGET, DRAFT) == pytest.approx(0.7)


def test_schemes_differ_in_length_only() -> None:
    target, draft = np.tile(TARGET, (5, 1)), np.tile(DRAFT, (4, 1))
    lengths = {name: scheme.expected_length(target, draft) for name, scheme in SCHEMES.items()}
    assert lengths == pytest.approx(
        {
            "standard": (1 - 0.7**5) / 0.3,
            "no-bonus": (1 - 0.7**4) / 0.3,
            "sample-and-match": (1 - 0.29**5) / 0.71,
            "sample-and-match-no-bonus": (1 - 0.29**4) / 0.71,
        }
    )
    assert len({round(value, 9) for value in lengths.values()}) == len(SCHEMES)


@given(st.integers(0, 10**6), st.integers(1, 6))
def test_no_draft_matches_more_often_than_it_is_accepted(seed, vocab_size) -> None:
    target, draft = random_rows(seed, 1, vocab_size), random_rows(seed + 1, 1, vocab_size)
    assert match_rate(target, draft) <= acceptance_rate(target, draft) + 1e-15


ROWS = np.array([[0.5, 0.5], [0.5, 0.5]])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: emitted_length_pmf(0.5), "gamma: is needed"),
        (lambda: emitted_length_pmf(0.5, 0), "gamma: must be at least 1, got 0"),
        (lambda: emitted_length_pmf([0.5, 1.5]), r"alphas: must lie in \[0, 1\], got 1.5"),
        (lambda: emitted_length_pmf([0.5], 2), "alphas: last axis must hold gamma = 2"),
        (lambda: emitted_length_pmf([]), "alphas: last axis must hold"),
        (lambda: emitted_length_pmf([[0.5]], weights=[0.5, 0.5]), "weights: need one for each"),
        (lambda: emitted_length_pmf([[0.5]], weights=[0.5]), "weights: must sum to one, got 0.5"),
        (lambda: emitted_length_moments([0.5, 0.6]), "pmf: must sum to one, got 1.1"),
        (lambda: emitted_length_moments([]), "pmf: must be one non-empty row"),
        (lambda: block_law(ROWS, ROWS), r"target_probs: shape \(2, 2\) does not fit"),
        (lambda: block_law(ROWS * 2, ROWS[:1]), "target_probs: a row does not sum to one"),
        (lambda: block_law(ROWS, ROWS[:1] * 2), "draft_probs: a row does not sum to one"),
        (
            lambda: block_law(np.full((3, 1000), 1e-3), np.full((2, 1000), 1e-3)),
            "target_probs: 1000.3 outcomes are too many",
        ),
        (
            lambda: context_block_law(lambda t: ROWS[0], lambda t: [1.0], [], 1, vocab_size=2),
            r"draft_next: gave shape \(1,\) after \(\), not \(2,\)",
        ),
        (
            lambda: context_length_pmf(lambda t: ROWS[0], lambda t: ROWS[0], [], 0, vocab_size=2),
            "gamma: must be at least 1, got 0",
        ),
        (lambda: SCHEMES["standard"].length_pmf(ROWS[0], ROWS), "target_probs: shape"),
    ],
)
def test_bad_arguments_are_named(call, message) -> None:
    with pytest.raises(InvalidInputError, match=message):
        call()
