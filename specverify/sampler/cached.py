"""Decode loops over models with a key-value cache, rolled back after each rejected draft."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from specverify._arrays import FloatArray
from specverify.sampler.cached_parts import (
    Text,
    Uniforms,
    check_vocabularies,
    host_uniforms,
    laws_of,
    overlaps,
    room_to_draft,
    verified,
    weights_on_host,
)
from specverify.sampler.checks import check_decode_request
from specverify.sampler.draws import Generator, pick_token
from specverify.sampler.protocols import CachedModel
from specverify.sampler.trace import BlockTrace, DecodeTrace
from specverify.warping import SamplingParams

__all__ = ["decode_cached", "decode_plain_cached"]

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
    check_vocabularies(target, draft)
    check_decode_request(gamma, max_new_tokens)
    readers = _Reader(target, sampling), _Reader(draft, sampling)
    text = Text(target, prompt, max_new_tokens, eos_token_id)
    next_uniform = host_uniforms(generator)
    blocks = []
    while text.remaining:
        wanted = min(gamma, room_to_draft(target, draft, text))
        blocks.append(_block(readers, text, wanted, next_uniform, record_rates=record_rates))
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
    text = Text(target, prompt, max_new_tokens, eos_token_id)
    next_uniform = host_uniforms(generator)
    while text.remaining:
        (weights,) = reader.weights(reader.unread(text), 1)
        text.take([pick_token(weights, next_uniform())])
    return text.completion()


class _Reader:
    """A model with its cache, which holds a prefix of the text."""

    def __init__(self, model: CachedModel, sampling: SamplingParams) -> None:
        self.model, self.sampling = model, sampling
        self.cache = model.new_cache()

    def unread(self, text: Text) -> list[int]:
        """Tokens of the text that the cache does not hold."""
        return text.tokens[int(self.cache.lengths[0]) :]

    def weights(self, fresh: Sequence[int], n: int) -> FloatArray:
        """Read tokens; multiples of the laws after each of the last ``n``, ``(n, vocab)``."""
        logits = self.model.forward(np.asarray([fresh], dtype=np.int64), self.cache)
        # Most passes read no more than they score, and a tensor's slice costs as much as a draw.
        scored = logits if len(fresh) == n else logits[:, -n:]
        weights: FloatArray = weights_on_host(scored, self.sampling)[0]
        return weights

    def roll_back(self, length: int) -> None:
        """Forget everything beyond the first ``length`` tokens."""
        if self.cache.lengths[0] > length:
            self.cache.lengths[0] = length


def _block(
    readers: tuple[_Reader, _Reader],
    text: Text,
    wanted: int,
    next_uniform: Uniforms,
    *,
    record_rates: bool,
) -> BlockTrace:
    """Draft, verify, take what is emitted, and roll both caches back to what was accepted."""
    target, draft = readers
    proposed, draft_laws = _propose(draft, text, wanted, next_uniform)
    laws = laws_of(target.weights(target.unread(text) + proposed, wanted + 1))
    n_accepted, token = verified(laws, draft_laws, proposed, next_uniform)
    read = len(text.tokens) + n_accepted
    target.roll_back(read)
    draft.roll_back(read)
    emitted = [*proposed[:n_accepted], token]
    return BlockTrace(
        tuple(proposed),
        n_accepted,
        tuple(emitted),
        text.take(emitted),
        overlaps(laws, draft_laws) if record_rates else (),
    )


def _propose(
    reader: _Reader, text: Text, n: int, next_uniform: Uniforms
) -> tuple[list[int], FloatArray]:
    proposed: list[int] = []
    rows = []
    fresh = reader.unread(text)
    while len(proposed) < n:
        weights = reader.weights(fresh, 1)
        fresh = [pick_token(weights[0], next_uniform())]
        proposed += fresh
        rows.append(weights)
    laws = laws_of(np.concatenate(rows)) if rows else np.empty((0, reader.model.vocab_size))
    return proposed, laws
