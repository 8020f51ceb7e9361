"""Exact law of a whole speculative decode: block laws composed until enough tokens are out.

That its completions follow ``completion_law`` of the target is the theorem the suite is about;
here both sides are computed apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from specverify.theory._rows import NextProbs, Rows, Tokens, cached_rows, check_size
from specverify.theory.block_law import enumerate_block
from specverify.theory.validation import checked_count

__all__ = ["DecodeLaw", "decode_law"]


@dataclass(frozen=True)
class DecodeLaw:
    """What a speculative decode of a fixed number of tokens can do, with probabilities.

    Attributes:
        completions: Probability of each completion, shape ``(vocab,) * length``.
        passes: Probability of 0, 1, 2, ... passes of the target, shape ``(length + 1,)``.
    """

    completions: NDArray[np.float64]
    passes: NDArray[np.float64]


def decode_law(
    target_next: NextProbs,
    draft_next: NextProbs,
    gamma: int,
    length: int,
    *,
    prompt: Sequence[int],
    vocab_size: int,
    bonus: bool = True,
) -> DecodeLaw:
    """Exact law of the standard loop: draft ``gamma``, verify, emit, until ``length`` are out.

    The last block is cut at ``length``. A loop that drafts less near the end instead has the same
    law, of completions and of passes.

    Args:
        target_next: Maps a tuple of tokens, prompt included, to target probabilities ``(vocab,)``.
        draft_next: The same for the draft.
        gamma: Draft tokens per block, at least 1.
        length: New tokens, at least 1.
        prompt: Tokens before the completion.
        vocab_size: Size of the vocabulary.
        bonus: Whether a fully accepted block earns one more token.

    Returns:
        The law of completions and passes.

    Raises:
        InvalidInputError: If an argument is out of range, a row is not a distribution, or there
            are too many completions to enumerate.
    """
    for argument, value in {"gamma": gamma, "length": length, "vocab_size": vocab_size}.items():
        checked_count(argument, value)
    check_size("length", vocab_size, length + gamma)
    target = cached_rows("target_next", target_next, prompt, vocab_size)
    draft = cached_rows("draft_next", draft_next, prompt, vocab_size)
    completions = np.zeros((vocab_size,) * length)
    passes = np.zeros(length + 1)
    running: dict[Tokens, float] = {(): 1.0}
    for done in range(1, length + 1):
        following: dict[Tokens, float] = {}
        for tokens, mass in running.items():
            for emitted, chance in _block_after(target, draft, gamma, tokens, bonus).items():
                longer = (tokens + emitted)[:length]
                if len(longer) == length:
                    completions[longer] += mass * chance
                    passes[done] += mass * chance
                else:
                    following[longer] = following.get(longer, 0.0) + mass * chance
        running = following
    return DecodeLaw(completions, passes)


def _block_after(
    target: Rows, draft: Rows, gamma: int, tokens: Tokens, bonus: bool
) -> dict[Tokens, float]:
    return enumerate_block(
        lambda new: target(tokens + new), lambda new: draft(tokens + new), gamma, bonus=bonus
    )
