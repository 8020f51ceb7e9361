"""Exact joint law of what one block of standard speculative sampling emits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specverify._arrays import to_numpy
from specverify.distributions import check_distribution
from specverify.errors import InvalidInputError
from specverify.theory._rows import NextProbs, Rows, Tokens, cached_rows, check_size
from specverify.theory.validation import checked_count

__all__ = ["block_law", "context_block_law", "context_length_pmf", "enumerate_block"]


def block_law(
    target_probs: Any, draft_probs: Any, *, bonus: bool = True
) -> dict[tuple[int, ...], float]:
    """Joint law of the tokens of one block whose rows do not depend on the tokens before.

    The tuple's length tells how many draft tokens were accepted (all but its last), so that this
    is the joint law of tokens and length.

    Args:
        target_probs: Target probabilities, shape ``(gamma + 1, vocab)``, numpy or torch.
        draft_probs: Draft probabilities, shape ``(gamma, vocab)``.
        bonus: Whether a fully accepted block earns a token from the last target row.

    Returns:
        Probability of each emitted tuple that can occur; they sum to one.

    Raises:
        InvalidInputError: If the shapes do not fit, a row is not a distribution, or there are too
            many outcomes to enumerate.

    References:
        Leviathan et al. (2023), arXiv:2211.17192, algorithm 1.
    """
    target = to_numpy(target_probs).astype(np.float64)
    draft = to_numpy(draft_probs).astype(np.float64)
    if draft.ndim != 2 or draft.shape[0] < 1 or target.shape != (len(draft) + 1, draft.shape[1]):
        raise InvalidInputError(
            "target_probs", f"shape {target.shape} does not fit draft_probs' {draft.shape}"
        )
    check_distribution("target_probs", target)
    check_distribution("draft_probs", draft)
    gamma, vocab_size = draft.shape
    check_size("target_probs", vocab_size, gamma + 1)
    return enumerate_block(
        lambda tokens: target[len(tokens)],
        lambda tokens: draft[len(tokens)],
        gamma,
        bonus=bonus,
    )


def context_block_law(
    target_next: NextProbs,
    draft_next: NextProbs,
    prompt: Sequence[int],
    gamma: int,
    *,
    vocab_size: int,
    bonus: bool = True,
) -> dict[tuple[int, ...], float]:
    """Joint law of the tokens of one block drafted after ``prompt``; rows depend on the tokens.

    Args:
        target_next: Maps a tuple of tokens, prompt included, to target probabilities ``(vocab,)``.
        draft_next: The same for the draft.
        prompt: Tokens before the block.
        gamma: Draft tokens, at least 1.
        vocab_size: Size of the vocabulary.
        bonus: Whether a fully accepted block earns one more token.

    Returns:
        Probability of each emitted tuple that can occur.

    Raises:
        InvalidInputError: If an argument is out of range or a row is not a distribution.
    """
    target, draft = _both_rows(target_next, draft_next, prompt, gamma, vocab_size)
    return enumerate_block(target, draft, gamma, bonus=bonus)


def context_length_pmf(
    target_next: NextProbs,
    draft_next: NextProbs,
    prompt: Sequence[int],
    gamma: int,
    *,
    vocab_size: int,
    bonus: bool = True,
) -> NDArray[np.float64]:
    """Law of the number of tokens of one block when acceptance depends on the tokens.

    The alphas along a block are then no longer independent of which tokens were accepted; the law
    is summed over the tree of accepted prefixes. Arguments and errors as ``context_block_law``.

    Returns:
        Probabilities of 1, 2, ... tokens, shape ``(gamma + 1,)``, or ``(gamma,)`` without bonus.
    """
    target, draft = _both_rows(target_next, draft_next, prompt, gamma, vocab_size)
    alive = [sum(level.values()) for level in _accepted_prefixes(target, draft, gamma)]
    reached = np.array(alive[: gamma + int(bonus)])
    pmf: NDArray[np.float64] = reached - np.append(reached[1:], 0.0)
    return pmf


def enumerate_block(
    target: Rows, draft: Rows, gamma: int, *, bonus: bool
) -> dict[tuple[int, ...], float]:
    """The law behind the public functions, from rows that are already checked."""
    law: dict[Tokens, float] = {}
    for depth, level in enumerate(_accepted_prefixes(target, draft, gamma)):
        for tokens, mass in level.items():
            if depth < gamma:
                # Rejection and residual together: (1 - alpha) (p - q)+ / (1 - alpha).
                _spread(law, tokens, mass * np.clip(target(tokens) - draft(tokens), 0, None))
            elif bonus:
                _spread(law, tokens, mass * target(tokens))
            else:
                law[tokens] = law.get(tokens, 0.0) + mass
    return law


def _accepted_prefixes(target: Rows, draft: Rows, gamma: int) -> Iterator[dict[Tokens, float]]:
    """Probability of each accepted prefix of 0, 1, ..., ``gamma`` tokens."""
    level: dict[Tokens, float] = {(): 1.0}
    yield level
    for _ in range(gamma):
        longer: dict[Tokens, float] = {}
        for tokens, mass in level.items():
            _spread(longer, tokens, mass * np.minimum(target(tokens), draft(tokens)))
        level = longer
        yield level


def _spread(law: dict[Tokens, float], tokens: Tokens, masses: NDArray[np.float64]) -> None:
    for token in np.flatnonzero(masses):
        longer = (*tokens, int(token))
        law[longer] = law.get(longer, 0.0) + float(masses[token])


def _both_rows(
    target_next: NextProbs,
    draft_next: NextProbs,
    prompt: Sequence[int],
    gamma: int,
    vocab_size: int,
) -> tuple[Rows, Rows]:
    checked_count("gamma", gamma)
    checked_count("vocab_size", vocab_size)
    check_size("vocab_size", vocab_size, gamma + 1)
    return (
        cached_rows("target_next", target_next, prompt, vocab_size),
        cached_rows("draft_next", draft_next, prompt, vocab_size),
    )
