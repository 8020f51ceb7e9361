"""Exact law of a whole completion of an autoregressive model, by the chain rule."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from specverify.errors import InvalidInputError
from specverify.theory._rows import NextProbs, Tokens, cached_rows, check_size
from specverify.theory.validation import checked_count

__all__ = ["completion_law", "completion_law_with_eos"]


def completion_law(
    next_probs: NextProbs, prompt: Sequence[int], length: int, vocab_size: int
) -> NDArray[np.float64]:
    """Joint law of the next ``length`` tokens after ``prompt``.

    Args:
        next_probs: Maps a tuple of tokens, prompt included, to probabilities ``(vocab,)``.
        prompt: Tokens before the completion.
        length: New tokens, at least 1.
        vocab_size: Size of the vocabulary.

    Returns:
        Probabilities, shape ``(vocab,) * length``: entry ``[a, b, ...]`` is that of the completion
        ``a, b, ...``.

    Raises:
        InvalidInputError: If an argument is out of range, a row is not a distribution, or there
            are too many completions to enumerate.
    """
    checked_count("length", length)
    checked_count("vocab_size", vocab_size)
    check_size("length", vocab_size, length)
    row = cached_rows("next_probs", next_probs, prompt, vocab_size)
    law: NDArray[np.float64] = np.ones(())
    for _ in range(length):
        longer = np.zeros((*law.shape, vocab_size))
        for tokens in map(tuple, np.argwhere(law > 0).tolist()):
            longer[tokens] = law[tokens] * row(tokens)
        law = longer
    return law


def completion_law_with_eos(
    next_probs: NextProbs,
    prompt: Sequence[int],
    length: int,
    vocab_size: int,
    *,
    eos_token_id: int,
) -> dict[tuple[int, ...], float]:
    """Joint law of a completion that ends with its first EOS, or after ``length`` tokens.

    Args:
        next_probs: Maps a tuple of tokens, prompt included, to probabilities ``(vocab,)``.
        prompt: Tokens before the completion.
        length: Most new tokens, at least 1.
        vocab_size: Size of the vocabulary.
        eos_token_id: The token that ends a completion; it is part of it.

    Returns:
        Probability of each completion that can occur.

    Raises:
        InvalidInputError: As ``completion_law``, or if ``eos_token_id`` is not in the vocabulary.
    """
    checked_count("length", length)
    checked_count("vocab_size", vocab_size)
    check_size("length", vocab_size, length)
    if not 0 <= eos_token_id < vocab_size:
        raise InvalidInputError("eos_token_id", f"not in [0, {vocab_size}), got {eos_token_id}")
    row = cached_rows("next_probs", next_probs, prompt, vocab_size)
    ended: dict[Tokens, float] = {}
    running: dict[Tokens, float] = {(): 1.0}
    for _ in range(length):
        longer = {
            (*tokens, int(token)): mass * float(row(tokens)[token])
            for tokens, mass in running.items()
            for token in np.flatnonzero(row(tokens))
        }
        ended |= {tokens: mass for tokens, mass in longer.items() if tokens[-1] == eos_token_id}
        running = {tokens: mass for tokens, mass in longer.items() if tokens[-1] != eos_token_id}
    return ended | running
