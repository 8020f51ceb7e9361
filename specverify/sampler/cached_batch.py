"""Many sequences side by side over cached models; each accepts its own number of drafts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specverify._arrays import FloatArray
from specverify.errors import InvalidInputError
from specverify.sampler.cached_parts import (
    Text,
    check_vocabularies,
    host_uniforms,
    laws_on_host,
    room_to_draft,
    verified,
)
from specverify.sampler.checks import check_decode_request
from specverify.sampler.draws import Generator, pick_token
from specverify.sampler.protocols import CachedModel
from specverify.sampler.trace import BlockTrace, DecodeTrace
from specverify.warping import SamplingParams

__all__ = ["decode_cached_batch"]

_PLAIN = SamplingParams()


def decode_cached_batch(
    target: CachedModel,
    draft: CachedModel,
    prompts: Sequence[Sequence[int]],
    *,
    gamma: int,
    max_new_tokens: int,
    sampling: SamplingParams = _PLAIN,
    generators: Sequence[Generator] | None = None,
    eos_token_id: int | None = None,
) -> list[tuple[NDArray[np.int64], DecodeTrace]]:
    """Decode several completions speculatively, one pass of each model for all of them.

    Rows are independent: each is what :func:`~specverify.sampler.cached.decode_cached` gives for
    its prompt and generator, up to the rounding of larger products. Each keeps its own length in
    the caches; rows that ended drop out, which needs caches with ``keep``.

    Args:
        target: The model whose law results.
        draft: A cheaper one over the same vocabulary.
        prompts: Ids of each row, at least one, of any lengths.
        gamma: Tokens drafted in a pass, at least 1.
        max_new_tokens: Length of each completion, unless it ends by itself.
        sampling: Temperature and filters, applied to both models alike.
        generators: One a row, ``numpy.random.Generator`` or ``torch.Generator``.
        eos_token_id: Token that ends a completion, which keeps it.

    Returns:
        New ids and trace of each row.

    Raises:
        InvalidInputError: As ``decode_cached``, or if there are not as many generators as prompts.
    """
    check_vocabularies(target, draft)
    check_decode_request(gamma, max_new_tokens)
    sources = [None] * len(prompts) if generators is None else generators
    if len(sources) != len(prompts):
        raise InvalidInputError(
            "generators", f"needs one a prompt ({len(prompts)}), got {len(sources)}"
        )
    rows = [
        _Row(Text(target, prompt, max_new_tokens, eos_token_id), source)
        for prompt, source in zip(prompts, sources, strict=True)
    ]
    if rows and max_new_tokens:
        _decode(rows, (target, draft), gamma, sampling)
    return [(row.text.completion(), DecodeTrace(tuple(row.blocks))) for row in rows]


def _decode(
    rows: Sequence[_Row],
    models: tuple[CachedModel, CachedModel],
    gamma: int,
    sampling: SamplingParams,
) -> None:
    target, draft = (_Reader(model, sampling, len(rows)) for model in models)
    while rows:
        for row in rows:
            row.begin(min(gamma, room_to_draft(*models, row.text)))
        _draft(rows, draft)
        counts = [len(row.proposed) + 1 for row in rows]
        laws = target.laws([row.text.tokens + row.proposed for row in rows], counts)
        read = [row.verify(law) for row, law in zip(rows, laws, strict=True)]
        going = [index for index, row in enumerate(rows) if row.text.remaining]
        for reader in (target, draft):
            reader.roll_back(read)
            if 0 < len(going) < len(rows):
                reader.keep(going)
        rows = [rows[index] for index in going]


def _draft(rows: Sequence[_Row], reader: _Reader) -> None:
    while any(row.wants_more for row in rows):
        texts = [row.text.tokens + row.proposed for row in rows]
        for index, row in enumerate(rows):
            if not row.wants_more:  # stays as it is, beside those that do
                del texts[index][reader.cache.lengths[index] :]
        laws = reader.laws(texts, [int(row.wants_more) for row in rows])
        for row, law in zip(rows, laws, strict=True):
            if row.wants_more:
                row.propose(law[0])


class _Row:
    """A sequence under way."""

    def __init__(self, text: Text, generator: Generator) -> None:
        self.text = text
        self.blocks: list[BlockTrace] = []
        self.proposed: list[int] = []
        self._draft_laws: list[FloatArray] = []
        self._next_uniform = host_uniforms(generator)
        self._wanted = 0

    @property
    def wants_more(self) -> bool:
        """Whether the block under way has room for another draft."""
        return len(self.proposed) < self._wanted

    def begin(self, wanted: int) -> None:
        self._wanted, self.proposed, self._draft_laws = wanted, [], []

    def propose(self, law: FloatArray) -> None:
        self.proposed.append(pick_token(law, self._next_uniform()))
        self._draft_laws.append(law)

    def verify(self, laws: FloatArray) -> int:
        """Take what the block emits; how many tokens of the text both caches may keep."""
        before = len(self.text.tokens)
        draft_laws = np.stack(self._draft_laws) if self._draft_laws else laws[:0]
        n_accepted, token = verified(laws, draft_laws, self.proposed, self._next_uniform)
        emitted = (*self.proposed[:n_accepted], token)
        kept = self.text.take(emitted)
        self.blocks.append(BlockTrace(tuple(self.proposed), n_accepted, emitted, kept))
        return before + n_accepted


class _Reader:
    """A model and a cache whose rows hold prefixes of their texts."""

    def __init__(self, model: CachedModel, sampling: SamplingParams, batch_size: int) -> None:
        self.model, self.sampling = model, sampling
        self.cache: Any = model.new_cache(batch_size)

    def laws(self, texts: Sequence[Sequence[int]], counts: Sequence[int]) -> list[FloatArray]:
        """Laws of what follows each of the last ``counts[row]`` tokens of each text.

        All rows read equally many tokens. One that has fewer new ones reads its last cached ones
        again, so that no row needs room beyond its text; one shorter than that is filled up.
        """
        ends = np.array([len(text) for text in texts])
        width = max(int((ends - self.cache.lengths).max()), *counts, 1)
        starts = np.maximum(ends - width, 0)
        tokens = np.zeros((len(texts), width), np.int64)
        for row, (text, start) in enumerate(zip(texts, starts.tolist(), strict=True)):
            tokens[row, : len(text) - start] = text[start:]
        self.cache.lengths[:] = starts
        logits = self.model.forward(tokens, self.cache)
        self.cache.lengths[:] = ends
        columns = [
            np.arange(stop - count, stop) for stop, count in zip(ends - starts, counts, strict=True)
        ]
        chosen = logits[np.repeat(np.arange(len(texts)), counts), np.concatenate(columns)]
        return np.split(laws_on_host(chosen, self.sampling), np.cumsum(counts)[:-1])

    def roll_back(self, lengths: Sequence[int]) -> None:
        """Forget everything beyond the first ``lengths[row]`` tokens of each row."""
        self.cache.lengths[:] = np.minimum(self.cache.lengths, lengths)

    def keep(self, rows: Sequence[int]) -> None:
        """Drop all other rows."""
        self.cache.keep(rows)
