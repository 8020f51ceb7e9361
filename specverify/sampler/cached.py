"""Decode loops over models with a key-value cache, rolled back after each rejected draft."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specverify._arrays import FloatArray, is_torch, to_numpy
from specverify.distributions import acceptance_rate
from specverify.errors import InvalidInputError
from specverify.sampler.checks import check_decode_request
from specverify.sampler.draws import Generator, pick_token
from specverify.sampler.protocols import CachedModel
from specverify.sampler.trace import BlockTrace, DecodeTrace
from specverify.sampler.verify import accepted_prefix
from specverify.warping import SamplingParams, warp_logits

__all__ = ["decode_cached", "decode_plain_cached", "laws_on_host"]

_PLAIN = SamplingParams()


def decode_cached(
    target: CachedModel,
    draft: CachedModel,
    prompt: Sequence[int],
    *,
    gamma: int,
    max_new_tokens: int,
    sampling: SamplingParams = _PLAIN,
    generator: Generator = None,
    eos_token_id: int | None = None,
    record_rates: bool = False,
) -> tuple[NDArray[np.int64], DecodeTrace]:
    """Decode one completion speculatively with cached models.

    A block never drafts more than the completion, or a model's window, still has room for: near
    the end ``gamma`` shrinks, down to a plain target pass. The first pass reads the prompt as well.
    Laws are moved to the host, where all sampling happens.

    Args:
        target: The model whose law results.
        draft: A cheaper one over the same vocabulary. Where its window is shorter than the text,
            decoding goes on without it.
        prompt: Ids, at least one.
        gamma: Tokens drafted in a pass, at least 1.
        max_new_tokens: Length of the completion, unless it ends by itself.
        sampling: Temperature and filters, applied to both models alike.
        generator: ``numpy.random.Generator`` or ``torch.Generator``: source of all uniforms.
        eos_token_id: Token that ends the completion, which keeps it.
        record_rates: Whether the trace keeps the overlap ``sum min(target, draft)`` of each
            drafted position, from which acceptance can be predicted.

    Returns:
        The new ids (prompt excluded), int64, and the trace.

    Raises:
        InvalidInputError: If the vocabularies differ, an id or number is out of range, or the
            completion does not fit the target's window.

    References:
        Leviathan et al. (2023), arXiv:2211.17192, algorithm 1.
    """
    if target.vocab_size != draft.vocab_size:
        raise InvalidInputError(
            "draft", f"has {draft.vocab_size} tokens, but the target has {target.vocab_size}"
        )
    check_decode_request(gamma, max_new_tokens)
    target_reader = _Reader(target, sampling)
    draft_reader = _Reader(draft, sampling)
    text = _Text(target, prompt, max_new_tokens, eos_token_id)
    next_uniform = _host_uniforms(generator)
    blocks = []
    while text.remaining:
        # The last token read by the target is a draft; the draft model does not read its own last.
        room = min(target.max_length, draft.max_length + 1) - len(text.tokens)
        proposed, draft_laws = _propose(
            draft_reader, text.tokens, min(gamma, text.remaining - 1, room), next_uniform
        )
        laws = target_reader.laws(text.tokens + proposed, len(proposed) + 1)
        n_accepted, token = _verify(laws, draft_laws, proposed, next_uniform)
        emitted = [*proposed[:n_accepted], token]
        read = len(text.tokens) + n_accepted
        target_reader.roll_back(read)
        draft_reader.roll_back(read)
        rates = _overlaps(laws, draft_laws) if record_rates else ()
        kept = text.take(emitted)
        blocks.append(BlockTrace(tuple(proposed), n_accepted, tuple(emitted), kept, rates))
    return text.completion(), DecodeTrace(tuple(blocks))


def decode_plain_cached(
    target: CachedModel,
    prompt: Sequence[int],
    *,
    max_new_tokens: int,
    sampling: SamplingParams = _PLAIN,
    generator: Generator = None,
    eos_token_id: int | None = None,
) -> NDArray[np.int64]:
    """Decode one completion token by token with a cached model: the baseline of speedups.

    Args:
        target: The model.
        prompt: Ids, at least one.
        max_new_tokens: Length of the completion, unless it ends by itself.
        sampling: Temperature and filters.
        generator: ``numpy.random.Generator`` or ``torch.Generator``: source of all uniforms.
        eos_token_id: Token that ends the completion, which keeps it.

    Returns:
        The new ids (prompt excluded), int64.

    Raises:
        InvalidInputError: If an id or number is out of range, or the completion does not fit the
            model's window.
    """
    check_decode_request(1, max_new_tokens)
    reader = _Reader(target, sampling)
    text = _Text(target, prompt, max_new_tokens, eos_token_id)
    next_uniform = _host_uniforms(generator)
    while text.remaining:
        law = reader.laws(text.tokens, 1)[0]
        text.take([pick_token(law, next_uniform())])
    return text.completion()


def laws_on_host(logits: Any, sampling: SamplingParams) -> FloatArray:
    """What :func:`specverify.warping.warp_logits` gives, in numpy and cheaper per token.

    Args:
        logits: Scores, numpy or torch, shape ``(n, vocab)``.
        sampling: Temperature and filters.

    Raises:
        InvalidInputError: If a score is NaN or ``+inf``, or a row has no finite score.
    """
    scores = _on_host(logits)
    laws = _softmax(scores) if sampling.is_plain else None
    return warp_logits(scores, sampling) if laws is None else laws


class _Reader:
    """A model with its cache, which holds a prefix of the text."""

    def __init__(self, model: CachedModel, sampling: SamplingParams) -> None:
        self.model, self.sampling = model, sampling
        self.cache = model.new_cache()

    def laws(self, tokens: Sequence[int], n: int) -> FloatArray:
        """Laws of what follows each of the last ``n`` tokens, ``(n, vocab)``; reads what is new."""
        fresh = np.asarray([tokens[int(self.cache.lengths[0]) :]], dtype=np.int64)
        return laws_on_host(self.model.forward(fresh, self.cache)[0, -n:], self.sampling)

    def roll_back(self, length: int) -> None:
        """Forget everything beyond the first ``length`` tokens."""
        self.cache.lengths[:] = np.minimum(self.cache.lengths, length)


class _Text:
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


def _propose(
    reader: _Reader, tokens: Sequence[int], n: int, next_uniform: Callable[[], float]
) -> tuple[list[int], FloatArray]:
    proposed: list[int] = []
    laws = []
    for _ in range(n):
        law = reader.laws([*tokens, *proposed], 1)[0]
        proposed.append(pick_token(law, next_uniform()))
        laws.append(law)
    return proposed, np.stack(laws) if laws else np.empty((0, reader.model.vocab_size))


def _verify(
    target_laws: FloatArray,
    draft_laws: FloatArray,
    proposed: Sequence[int],
    next_uniform: Callable[[], float],
) -> tuple[int, int]:
    """Number of accepted drafts, and the correction or bonus."""
    n_accepted = accepted_prefix(target_laws, draft_laws, proposed, next_uniform)
    weights: FloatArray = target_laws[n_accepted]
    if n_accepted < len(proposed):
        # Weights need no common divisor. Without an excess a rejection is a matter of rounding.
        excess = np.maximum(weights - draft_laws[n_accepted], 0)
        weights = excess if excess.any() else weights
    return n_accepted, pick_token(weights, next_uniform())


def _softmax(logits: NDArray[Any]) -> FloatArray | None:
    """The model's own laws; None where a total is not finite or the dtype too narrow."""
    if logits.dtype.itemsize < 4:
        return None
    with np.errstate(invalid="ignore"):
        laws: FloatArray = np.exp(logits - np.maximum.reduce(logits, axis=-1, keepdims=True))
    total = np.add.reduce(laws, axis=-1, keepdims=True)
    laws /= total
    return laws if math.isfinite(total.sum()) else None


def _on_host(logits: Any) -> NDArray[Any]:
    if is_torch(logits) and logits.dtype.itemsize < 4:
        logits = logits.float()  # numpy has no bfloat16
    return to_numpy(logits)


def _overlaps(target_laws: FloatArray, draft_laws: FloatArray) -> tuple[float, ...]:
    return tuple(acceptance_rate(target_laws[: len(draft_laws)], draft_laws).tolist())


def _host_uniforms(generator: Generator) -> Callable[[], float]:
    if generator is None or isinstance(generator, np.random.Generator):
        source: Any = np.random.default_rng() if generator is None else generator
        draw: Callable[[], float] = source.random
        return draw
    import torch

    return lambda: torch.rand(
        1, generator=generator, dtype=torch.float64, device=generator.device
    ).item()
