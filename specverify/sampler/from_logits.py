"""Verification of many blocks straight from logits: on the host, only of rows that are needed."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from specverify._arrays import Array, FloatArray, is_torch, namespace, to_numpy
from specverify.errors import InvalidInputError
from specverify.sampler.batched import BlockBatch, verify_blocks
from specverify.sampler.checks import (
    block_lengths,
    check_block_shapes,
    check_lengths,
    check_token_ids,
    live_rows,
)
from specverify.sampler.draws import Generator, check_generator, uniforms
from specverify.sampler.long_rows import excess
from specverify.sampler.one_by_one import is_on_host, verify_in_turn

__all__ = ["verify_blocks_from_logits"]

_MANY, _LONG = 16, 8192  # for many shorter rows it is cheaper to normalise all at once
_FEW_DIGITS = 1e-30  # a smaller probability has lost digits in float32: logarithms have not


def verify_blocks_from_logits(
    target_logits: Array,
    draft_logits: Array,
    draft_tokens: Array,
    generator: Generator = None,
    *,
    temperature: float = 1.0,
    draft_lengths: Any = None,
    validate: bool = True,
) -> BlockBatch:
    """What ``verify_blocks`` does with the softmax of the logits, without most of the softmax.

    On the host, in float32 and float64, long rows are normalised when a test reaches them.
    Elsewhere all are normalised at once, and nothing waits for the device.

    Args:
        target_logits: Shape ``(batch, gamma + 1, vocab)``; ``-inf`` excludes a token.
        draft_logits: Shape ``(batch, gamma, vocab)``.
        draft_tokens: Drafted ids, shape ``(batch, gamma)``.
        generator: ``torch.Generator`` or ``numpy.random.Generator``, as the arrays are.
        temperature: Of both models, above 0.
        draft_lengths: Drafts of each row, shape ``(batch,)``, where rows have fewer than
            ``gamma``; whatever stands beyond is ignored.
        validate: Whether to check values (shapes are always checked).

    Returns:
        The emitted tokens and the numbers of accepted drafts.

    Raises:
        InvalidInputError: If shapes, lengths, ids, logits or the temperature are unusable.

    References:
        Leviathan et al. (2023), arXiv:2211.17192, algorithm 1.
    """
    check_block_shapes(target_logits, draft_logits, draft_tokens, batched=True)
    check_generator(target_logits, generator)
    if not (temperature > 0 and math.isfinite(temperature)):
        raise InvalidInputError("temperature", f"must be positive, got {temperature}")
    lengths = block_lengths(draft_tokens, draft_lengths)
    if validate:
        _check_values(target_logits, draft_logits, draft_tokens, lengths)
    if is_on_host(target_logits, draft_logits) and _few_or_long(target_logits):
        batch, gamma = draft_tokens.shape
        drawn = uniforms(target_logits, (batch, gamma + 1), generator)
        blocks = _blocks(target_logits, draft_logits, temperature)
        return BlockBatch(*verify_in_turn(blocks, draft_tokens, drawn, lengths))
    target_probs, draft_probs = (
        _softmax(logits, temperature) for logits in (target_logits, draft_logits)
    )
    laws = target_probs, draft_probs
    return verify_blocks(*laws, draft_tokens, generator, draft_lengths=lengths, validate=False)


def _few_or_long(logits: Any) -> bool:
    return bool(logits.shape[0] < _MANY or logits.shape[-1] >= _LONG)


def _check_values(target_logits: Any, draft_logits: Any, draft_tokens: Any, lengths: Any) -> None:
    gamma = draft_tokens.shape[1]
    if lengths is None:
        lengths = block_lengths(draft_tokens, [gamma] * draft_tokens.shape[0])
    check_lengths(lengths, gamma)
    tested = live_rows(lengths, gamma)
    check_token_ids("draft_tokens", draft_tokens[tested], target_logits.shape[-1])
    _check_logits("target_logits", target_logits, live_rows(lengths + 1, gamma + 1))
    _check_logits("draft_logits", draft_logits, tested)


def _check_logits(argument: str, logits: Any, live: Any) -> None:
    xp = namespace(logits)
    # The largest is NaN if one of them is.
    if not bool(xp.all(xp.isfinite(xp.max(logits, axis=-1)) | ~live)):
        raise InvalidInputError(argument, "needs rows with a finite largest score")


def _divisor(logits: Any, temperature: float) -> float:
    """The temperature; what rounds to zero would make 0 / 0 of the largest score."""
    return max(temperature, float(namespace(logits).finfo(logits.dtype).smallest_normal))


def _softmax(logits: Any, temperature: float) -> Any:
    """Laws of all rows."""
    xp = namespace(logits)
    if temperature != 1:
        logits = (logits - xp.max(logits, axis=-1, keepdims=True)) / _divisor(logits, temperature)
    if is_torch(logits):
        return logits.softmax(-1)
    from scipy.special import softmax

    return softmax(logits, axis=-1)


def _blocks(target_logits: Any, draft_logits: Any, temperature: float) -> Iterator[_LazyBlock]:
    if is_torch(target_logits):
        target_logits, draft_logits = target_logits.detach(), draft_logits.detach()
    models = _Normaliser(target_logits, temperature), _Normaliser(draft_logits, temperature)
    for target_rows, draft_rows in zip(target_logits, draft_logits, strict=True):
        yield _LazyBlock(target_rows, draft_rows, *models)


class _LazyBlock(NamedTuple):
    """A block that is normalised row by row; its laws are overwritten by the next."""

    target_rows: Any
    draft_rows: Any
    target: _Normaliser
    draft: _Normaliser

    def ratio(self, place: int, token: int) -> float:
        """Target over draft probability of a drafted token, at most one where digits are lost."""
        target = self.target.normalise(self.target_rows[place]).item(token)
        draft = self.draft.normalise(self.draft_rows[place]).item(token)
        if min(target, draft) > _FEW_DIGITS:
            return float(target / draft)
        target = self.target.log_probability(self.target_rows[place], token)
        draft = self.draft.log_probability(self.draft_rows[place], token)
        return math.exp(min(target - draft, 0.0))

    def correction(self, place: int) -> FloatArray:
        """Weights after a rejection at the place whose ratio was asked for last."""
        weights = excess(self.target.law, self.draft.law, out=self.target.law)
        # A rejection without any excess has probability zero, up to rounding.
        return weights if weights.any() else self.bonus(place)

    def bonus(self, place: int) -> FloatArray:
        """The target's law."""
        return self.target.normalise(self.target_rows[place])


class _Normaliser:
    """Normalises one row of a model's logits at a time, in memory of its own.

    Memory fresh from the system for each row would cost as much as the arithmetic.
    """

    def __init__(self, logits: Any, temperature: float) -> None:
        vocab = logits.shape[-1]
        self._torch = is_torch(logits)
        self._room: Any = (
            logits.new_empty(vocab) if self._torch else np.empty(vocab, dtype=logits.dtype)
        )
        self.law: FloatArray = to_numpy(self._room)
        self._divisor = 1.0 if temperature == 1 else _divisor(logits, temperature)

    def normalise(self, scores: Any) -> FloatArray:
        """The law of a row, in numpy, until the next row."""
        if self._torch:
            self._by_torch(scores)
        else:
            self._by_numpy(scores)
        return self.law

    def _by_torch(self, scores: Any) -> None:
        import torch

        if self._divisor != 1:
            torch.sub(scores, scores.amax(), out=self._room)
            scores = self._room.div_(self._divisor)
        torch.softmax(scores, -1, out=self._room)

    def _by_numpy(self, scores: Any) -> None:
        law = np.subtract(scores, scores.max(), out=self.law)
        if self._divisor != 1:
            law /= self._divisor
        np.exp(law, out=law)
        law /= law.sum()

    def log_probability(self, scores: Any, token: int) -> float:
        """Logarithm of a token's probability under the row that was normalised last."""
        largest = int(self.law.argmax())
        gap = float(scores[token]) - float(scores[largest])
        return gap / self._divisor + math.log(self.law.item(largest))
