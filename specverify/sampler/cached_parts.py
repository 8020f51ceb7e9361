"""What decode loops over cached models share: the text, laws on the host, a block's verdict."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from specverify._arrays import FloatArray, is_torch, to_numpy
from specverify.distributions import acceptance_rate
from specverify.errors import InvalidInputError
from specverify.sampler.draws import Generator, pick_token
from specverify.sampler.long_rows import excess
from specverify.sampler.protocols import CachedModel
from specverify.sampler.verify import accepted_prefix
from specverify.warping import SamplingParams, warp_logits

__all__ = [
    "Text",
    "Uniforms",
    "check_vocabularies",
    "host_uniforms",
    "laws_of",
    "laws_on_host",
    "overlaps",
    "room_to_draft",
    "verified",
    "weights_on_host",
]

Uniforms: TypeAlias = Callable[[], float]
"""Gives a fresh number in [0, 1)."""


def check_vocabularies(target: CachedModel, draft: CachedModel) -> None:
    """Refuse models over unequal vocabularies.

    Raises:
        InvalidInputError: Naming the draft.
    """
    if target.vocab_size != draft.vocab_size:
        raise InvalidInputError(
            "draft", f"has {draft.vocab_size} tokens, but the target has {target.vocab_size}"
        )


def room_to_draft(target: CachedModel, draft: CachedModel, text: Text) -> int:
    """How many tokens a block may draft in what both windows and the completion have room for."""
    # The last token read by the target is a draft; the draft model does not read its own last.
    windows = min(target.max_length, draft.max_length + 1) - len(text.tokens)
    return max(min(text.remaining - 1, windows), 0)


class Text:
    """The tokens so far, and how many may still come."""

    def __init__(
        self,
        target: CachedModel,
        prompt: Sequence[int],
        max_new_tokens: int,
        eos_token_id: int | None,
    ) -> None:
        self.tokens = [int(token) for token in prompt]
        self.prompt_length, self.remaining = len(self.tokens), max_new_tokens
        self.eos_token_id = eos_token_id
        if not self.tokens:
            raise InvalidInputError("prompt", "needs at least one token")
        for token in self.tokens:
            if not 0 <= token < target.vocab_size:
                raise InvalidInputError(
                    "prompt", f"ids must lie in [0, {target.vocab_size}), got {token}"
                )
        # The last new token is never read.
        if self.prompt_length + max_new_tokens - 1 > target.max_length:
            raise InvalidInputError(
                "max_new_tokens",
                f"{self.prompt_length} prompt tokens and {max_new_tokens} new ones do not fit the "
                f"target's window of {target.max_length}",
            )

    def take(self, emitted: Sequence[int]) -> int:
        """Append what there is room for, up to an end; say how much that was."""
        kept = list(emitted[: self.remaining])
        self.remaining -= len(kept)
        if self.eos_token_id in kept:
            del kept[kept.index(self.eos_token_id) + 1 :]
            self.remaining = 0
        self.tokens += kept
        return len(kept)

    def completion(self) -> NDArray[np.int64]:
        """The new tokens."""
        return np.asarray(self.tokens[self.prompt_length :], dtype=np.int64)


def laws_on_host(logits: Any, sampling: SamplingParams) -> FloatArray:
    """What :func:`specverify.warping.warp_logits` gives, in numpy and cheaper per token.

    Args:
        logits: Scores, numpy or torch, shape ``(..., vocab)``.
        sampling: Temperature and filters.

    Raises:
        InvalidInputError: If a score is NaN or ``+inf``, or a row has no finite score.
    """
    weights = weights_on_host(logits, sampling)
    return laws_of(weights) if sampling.is_plain else weights


def weights_on_host(logits: Any, sampling: SamplingParams) -> FloatArray:
    """Multiples of :func:`laws_on_host`: draws from single rows need no common divisor.

    Args:
        logits: Scores, numpy or torch, shape ``(..., vocab)``.
        sampling: Temperature and filters.

    Raises:
        InvalidInputError: If a score is NaN or ``+inf``, or a row has no finite score.
    """
    scores = _on_host(logits)
    weights = _weights(scores) if sampling.is_plain else None
    return warp_logits(scores, sampling) if weights is None else weights


def laws_of(weights: FloatArray) -> FloatArray:
    """Laws from multiples of them, in place."""
    weights /= np.add.reduce(weights, axis=-1, keepdims=True)
    return weights


def verified(
    target_laws: FloatArray,
    draft_laws: FloatArray,
    proposed: Sequence[int],
    next_uniform: Uniforms,
) -> tuple[int, int]:
    """Number of accepted drafts, and the correction or bonus.

    Args:
        target_laws: Shape ``(n + 1, vocab)`` for ``n`` drafts.
        draft_laws: Shape ``(n, vocab)``.
        proposed: The drafts.
        next_uniform: Asked once a test and once for the last token.
    """
    n_accepted = accepted_prefix(target_laws, draft_laws, proposed, next_uniform)
    weights: FloatArray = target_laws[n_accepted]
    if n_accepted < len(proposed):
        # Weights need no common divisor. Without an excess a rejection is a matter of rounding.
        surplus = excess(weights, draft_laws[n_accepted])
        weights = surplus if surplus.any() else weights
    return n_accepted, pick_token(weights, next_uniform())


def overlaps(target_laws: FloatArray, draft_laws: FloatArray) -> tuple[float, ...]:
    """``sum min(target, draft)`` at each drafted position."""
    return tuple(acceptance_rate(target_laws[: len(draft_laws)], draft_laws).tolist())


def host_uniforms(generator: Generator) -> Uniforms:
    """Uniforms of a generator of either library, drawn one at a time."""
    if generator is None or isinstance(generator, np.random.Generator):
        source: Any = np.random.default_rng() if generator is None else generator
        draw: Callable[[], float] = source.random
        return draw
    import torch

    return lambda: torch.rand(
        1, generator=generator, dtype=torch.float64, device=generator.device
    ).item()


def _weights(logits: NDArray[Any]) -> FloatArray | None:
    """Multiples of the own laws; None where a row's top is not finite or the dtype too narrow."""
    if logits.dtype.itemsize < 4:
        return None
    highest = np.maximum.reduce(logits, axis=-1, keepdims=True)
    if not math.isfinite(sum(highest.ravel().tolist())):
        return None
    weights: FloatArray = logits - highest
    return np.exp(weights, out=weights)


def _on_host(logits: Any) -> NDArray[Any]:
    if is_torch(logits) and logits.dtype.itemsize < 4:
        logits = logits.float()  # numpy has no bfloat16
    return to_numpy(logits)
