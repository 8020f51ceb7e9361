"""Hypothesis strategies for property tests of speculative samplers.

Probabilities are small integer weights over their sum, so that a failing example shrinks to few
tokens and round numbers. Zeros, ties, point masses, equal and nearly equal pairs and disjoint
supports all come up: it is there that samplers break.

Example::

    from hypothesis import given
    from specverify.strategies import blocks

    @given(blocks(vocab_size=(2, 6), gamma=(1, 3)))
    def test_emits_at_most_gamma_plus_one(block):
        emitted, n_accepted = my_verify(*block)
        assert 1 <= len(emitted) <= len(block.draft_tokens) + 1

The functions need the package ``hypothesis`` (extra ``test``).
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from specverify.errors import InvalidInputError, MissingDependencyError
from specverify.warping import SamplingParams

try:
    from hypothesis import strategies as st
except ImportError as error:  # pragma: no cover - the test environment has it
    raise MissingDependencyError("hypothesis", "test") from error

__all__ = [
    "Block",
    "blocks",
    "disjoint_pairs",
    "distribution_pairs",
    "distributions",
    "near_equal_pairs",
    "sampling_params",
    "tabular_rows",
    "uniforms",
]

Probs: TypeAlias = NDArray[np.float64]
Pair: TypeAlias = tuple[Probs, Probs]
Size: TypeAlias = int | tuple[int, int]
"""A number, or the least and the greatest that may be drawn."""

_NEARNESS = 1000


class Block(NamedTuple):
    """One block to verify, in the order that verifiers take.

    Attributes:
        target_probs: Target rows, float64, shape ``(gamma + 1, vocab)``.
        draft_probs: Draft rows, float64, shape ``(gamma, vocab)``.
        draft_tokens: Ids of positive draft probability, int64, shape ``(gamma,)``.
    """

    target_probs: Probs
    draft_probs: Probs
    draft_tokens: NDArray[np.int64]


def distributions(
    vocab_size: Size = (2, 8), *, zeros: bool = True, max_weight: int = 20
) -> st.SearchStrategy[Probs]:
    """Probability vectors: positive, sparse, tied or point masses.

    Args:
        vocab_size: Number of tokens, at least 1, or its range.
        zeros: Whether tokens may have probability zero.
        max_weight: Largest integer weight, at least 1.

    Returns:
        A strategy for float64 arrays of shape ``(vocab,)``; shrinks to few tokens, all equal.

    Raises:
        InvalidInputError: If a number is out of range.
    """
    if max_weight < 1:
        raise InvalidInputError("max_weight", f"must be at least 1, got {max_weight}")
    return _sizes("vocab_size", vocab_size).flatmap(
        lambda size: _weights(size, zeros, max_weight).map(_normalised)
    )


def distribution_pairs(
    vocab_size: Size = (2, 8), *, zeros: bool = True, max_weight: int = 20
) -> st.SearchStrategy[Pair]:
    """Target and draft laws over one vocabulary: unrelated, equal, nearly equal or disjoint.

    Args:
        vocab_size: Number of tokens, at least 1, or its range.
        zeros: Whether tokens may have probability zero; without it no pair is disjoint.
        max_weight: Largest integer weight, at least 1.

    Returns:
        A strategy for ``(target_probs, draft_probs)``.

    Raises:
        InvalidInputError: If a number is out of range.
    """
    if max_weight < 1:
        raise InvalidInputError("max_weight", f"must be at least 1, got {max_weight}")
    return _sizes("vocab_size", vocab_size).flatmap(lambda size: _pairs(size, zeros, max_weight))


def disjoint_pairs(vocab_size: Size = (2, 8)) -> st.SearchStrategy[Pair]:
    """Target and draft laws without a common token: every draft is rejected.

    Args:
        vocab_size: Number of tokens, at least 2, or its range.

    Returns:
        A strategy for ``(target_probs, draft_probs)``.

    Raises:
        InvalidInputError: If a vocabulary of fewer than 2 tokens is allowed.
    """
    return _sizes("vocab_size", vocab_size, least=2).flatmap(_disjoint)


def near_equal_pairs(vocab_size: Size = (2, 8)) -> st.SearchStrategy[Pair]:
    """Target and draft laws that differ by a small mass moved from one token to another.

    Args:
        vocab_size: Number of tokens, at least 2, or its range.

    Returns:
        A strategy for ``(target_probs, draft_probs)``.

    Raises:
        InvalidInputError: If a vocabulary of fewer than 2 tokens is allowed.
    """
    return _sizes("vocab_size", vocab_size, least=2).flatmap(_near_equal)


def blocks(
    vocab_size: Size = (2, 6), gamma: Size = (1, 4), *, zeros: bool = True
) -> st.SearchStrategy[Block]:
    """Blocks whose drafts could have been drawn: their draft probability is positive.

    Args:
        vocab_size: Number of tokens, at least 1, or its range.
        gamma: Number of drafts, at least 0, or its range.
        zeros: Whether tokens may have probability zero.

    Returns:
        A strategy for :class:`Block`.

    Raises:
        InvalidInputError: If a number is out of range.
    """
    lengths = _sizes("gamma", gamma, least=0)
    return st.tuples(_sizes("vocab_size", vocab_size), lengths).flatmap(
        lambda sizes: _blocks(*sizes, zeros)
    )


def tabular_rows(
    vocab_size: Size = (2, 4), order: Size = (0, 2), *, zeros: bool = True
) -> st.SearchStrategy[Probs]:
    """Tables of n-gram models: a law for each context of ``order`` tokens.

    Args:
        vocab_size: Number of tokens, at least 1, or its range.
        order: Tokens of context, at least 0, or its range.
        zeros: Whether tokens may have probability zero.

    Returns:
        A strategy for float64 arrays of shape ``(vocab,) * order + (vocab,)``, as
        ``TabularModel`` takes.

    Raises:
        InvalidInputError: If a number is out of range.
    """
    return st.tuples(_sizes("vocab_size", vocab_size), _sizes("order", order, least=0)).flatmap(
        lambda sizes: _tables(*sizes, zeros)
    )


def sampling_params(*, greedy: bool = True) -> st.SearchStrategy[SamplingParams]:
    """Temperatures, top-k, top-p and min-p, each of which may be absent.

    Args:
        greedy: Whether the temperature may be 0.

    Returns:
        A strategy for ``SamplingParams``; shrinks to the defaults.
    """
    temperatures = [1.0, 0.5, 2.0, 0.25] + ([0.0] if greedy else [])
    return st.builds(
        SamplingParams,
        temperature=st.sampled_from(temperatures),
        top_k=st.none() | st.integers(1, 10),
        top_p=st.none() | st.sampled_from([1.0, 0.9, 0.5, 0.1]),
        min_p=st.none() | st.sampled_from([0.0, 0.1, 0.5, 1.0]),
    )


def uniforms(shape: tuple[int, ...]) -> st.SearchStrategy[Probs]:
    """Uniforms in [0, 1), the ends included: 0, and the largest number below 1.

    Args:
        shape: Shape of the arrays.

    Returns:
        A strategy for float64 arrays; shrinks to zeros.
    """
    count = int(np.prod(shape))
    number = st.integers(0, 99).map(lambda percent: percent / 100)
    number |= st.floats(0, 1, exclude_max=True) | st.just(float(np.nextafter(1, 0)))
    return st.lists(number, min_size=count, max_size=count).map(
        lambda values: np.asarray(values, dtype=np.float64).reshape(shape)
    )


def _sizes(argument: str, size: Size, *, least: int = 1) -> st.SearchStrategy[int]:
    low, high = (size, size) if isinstance(size, int) else size
    if not least <= low <= high:
        raise InvalidInputError(
            argument, f"must be a number or range of at least {least}, got {size}"
        )
    return st.integers(low, high)


def _weights(size: int, zeros: bool, max_weight: int) -> st.SearchStrategy[list[int]]:
    positive = _lists(st.integers(1, max_weight), size)
    if not zeros:
        return positive
    sparse = _lists(st.integers(0, min(3, max_weight)), size).filter(any)
    point = st.integers(0, size - 1).map(lambda token: [int(n == token) for n in range(size)])
    return positive | point | sparse


def _pairs(size: int, zeros: bool, max_weight: int) -> st.SearchStrategy[Pair]:
    law = _weights(size, zeros, max_weight).map(_normalised)
    kinds: list[st.SearchStrategy[Pair]] = [st.tuples(law, law), law.map(lambda p: (p, p.copy()))]
    if size > 1:
        kinds.append(_near_equal(size))
        if zeros:
            kinds.append(_disjoint(size))
    return st.one_of(kinds)


@st.composite
def _disjoint(draw: st.DrawFn, size: int) -> Pair:
    order = draw(st.permutations(range(size)))
    cut = draw(st.integers(1, size - 1))
    target, draft = np.zeros(size), np.zeros(size)
    target[list(order[:cut])] = draw(_lists(st.integers(1, 4), cut))
    draft[list(order[cut:])] = draw(_lists(st.integers(1, 4), size - cut))
    return target / target.sum(), draft / draft.sum()


@st.composite
def _near_equal(draw: st.DrawFn, size: int) -> Pair:
    # A thousandth of a weight moves, or one unit in the last place of the first token.
    weights = np.asarray(draw(_lists(st.integers(1, 10), size)), dtype=np.float64)
    target = weights / weights.sum()
    if draw(st.booleans()):
        draft = target.copy()
        draft[0] = np.nextafter(draft[0], draw(st.sampled_from([0.0, 1.0])))
        return target, draft
    source, sink = draw(st.permutations(range(size)))[:2]
    moved = weights[source] / _NEARNESS
    weights[source] -= moved
    weights[sink] += moved
    return target, weights / weights.sum()


@st.composite
def _blocks(draw: st.DrawFn, size: int, gamma: int, zeros: bool) -> Block:
    pairs = [draw(_pairs(size, zeros, 20)) for _ in range(gamma)]
    bonus = _normalised(draw(_weights(size, zeros, 20)))
    targets = [target for target, _ in pairs] + [bonus]
    drafts = np.stack([draft for _, draft in pairs]) if pairs else np.empty((0, size))
    tokens = [draw(st.sampled_from(np.flatnonzero(row).tolist())) for row in drafts]
    return Block(np.stack(targets), drafts, np.asarray(tokens, dtype=np.int64))


@st.composite
def _tables(draw: st.DrawFn, size: int, order: int, zeros: bool) -> Probs:
    rows = [_normalised(draw(_weights(size, zeros, 10))) for _ in range(size**order)]
    return np.stack(rows).reshape((size,) * (order + 1))


def _lists(elements: st.SearchStrategy[int], size: int) -> st.SearchStrategy[list[int]]:
    return st.lists(elements, min_size=size, max_size=size)


def _normalised(weights: Any) -> Probs:
    values = np.asarray(weights, dtype=np.float64)
    return np.asarray(values / values.sum())
