"""Verification of many blocks straight from logits: only the rows that a test reaches are read."""

from __future__ import annotations

import math
from typing import Any

from specverify._arrays import Array, is_torch, namespace
from specverify.errors import InvalidInputError
from specverify.sampler.batched import BlockBatch, verify_blocks
from specverify.sampler.checks import check_block_shapes, check_token_ids
from specverify.sampler.draws import Generator, check_generator, uniforms
from specverify.sampler.long_rows import draw_by_stretches
from specverify.warping import SamplingParams, warp_logits

__all__ = ["verify_blocks_from_logits"]

_NUMBERS_AT_ONCE = 1 << 19  # of a model's logits: two megabytes in float32


def verify_blocks_from_logits(
    target_logits: Array,
    draft_logits: Array,
    draft_tokens: Array,
    generator: Generator = None,
    *,
    temperature: float = 1.0,
    validate: bool = True,
) -> BlockBatch:
    """What ``verify_blocks`` does with the softmax of the logits, without most of the softmax.

    For float32 and float64 tensors on the host, a row is normalised when a test reaches it, and
    acceptance tests compare logarithms. Elsewhere all rows are normalised first.

    Args:
        target_logits: Shape ``(batch, gamma + 1, vocab)``; ``-inf`` excludes a token.
        draft_logits: Shape ``(batch, gamma, vocab)``.
        draft_tokens: Drafted ids, shape ``(batch, gamma)``.
        generator: ``torch.Generator`` or ``numpy.random.Generator``, as the arrays are.
        temperature: Of both models, above 0.
        validate: Whether to check values (shapes are always checked).

    Returns:
        The emitted tokens and the numbers of accepted drafts.

    Raises:
        InvalidInputError: If shapes, ids, logits or the temperature are unusable.

    References:
        Leviathan et al. (2023), arXiv:2211.17192, algorithm 1.
    """
    check_block_shapes(target_logits, draft_logits, draft_tokens, batched=True)
    check_generator(target_logits, generator)
    if not (temperature > 0 and math.isfinite(temperature)):
        raise InvalidInputError("temperature", f"must be positive, got {temperature}")
    if validate:
        check_token_ids("draft_tokens", draft_tokens, target_logits.shape[-1])
        for name, logits in (("target_logits", target_logits), ("draft_logits", draft_logits)):
            _check_logits(name, logits)
    both: tuple[Any, Any] = target_logits, draft_logits
    if _is_fused(target_logits) and draft_tokens.shape[1]:
        return _fused(both, draft_tokens, generator, temperature)
    sampling = SamplingParams(temperature=temperature)
    target_probs, draft_probs = (warp_logits(rows, sampling) for rows in both)
    return verify_blocks(target_probs, draft_probs, draft_tokens, generator, validate=False)


def _is_fused(logits: Any) -> bool:
    return is_torch(logits) and logits.device.type == "cpu" and logits.dtype.itemsize >= 4


def _check_logits(argument: str, logits: Any) -> None:
    xp = namespace(logits)
    if not logits.shape[0] or not logits.shape[1]:
        return
    # The largest is NaN if one of them is.
    if not bool(xp.all(xp.isfinite(xp.max(logits, axis=-1)))):
        raise InvalidInputError(argument, "needs rows with a finite largest score")


def _fused(
    logits: tuple[Any, Any], draft_tokens: Any, generator: Generator, temperature: float
) -> BlockBatch:
    import torch

    batch, gamma = draft_tokens.shape
    drawn = uniforms(logits[0], (batch, gamma + 1), generator)
    emitted = torch.full((batch, gamma + 1), -1, dtype=torch.int64)
    n_accepted = torch.zeros(batch, dtype=torch.int64)
    tokens = draft_tokens.to(torch.int64)
    step = max(1, _NUMBERS_AT_ONCE // logits[0].shape[-1])
    target, draft = (_Normaliser(rows, step, temperature) for rows in logits)
    for start in range(0, batch, step):
        live = torch.arange(start, min(start + step, batch))
        _verify_some((target, draft, tokens), live, drawn, (emitted, n_accepted))
    return BlockBatch(emitted, n_accepted)


def _verify_some(
    blocks: tuple[_Normaliser, _Normaliser, Any], live: Any, drawn: Any, found: tuple[Any, Any]
) -> None:
    """Verify a few blocks, position by position, each as long as its drafts are accepted."""
    target, draft, tokens = blocks
    emitted, n_accepted = found
    gamma = tokens.shape[1]
    for place in range(gamma):
        ids = tokens[live, place]
        target_law, target_log = target.law(live, place, ids)
        draft_law, draft_log = draft.law(live, place, ids)
        passed = drawn[live, place] < (target_log - draft_log).exp()
        out = live[~passed]
        if len(out):
            weights = _residual(target_law[~passed], draft_law[~passed])
            emitted[out, place] = draw_by_stretches(weights, drawn[out, gamma])
        live = live[passed]
        if not len(live):
            return
        emitted[live, place] = tokens[live, place]
        n_accepted[live] += 1
    bonus, _ = target.law(live, gamma, tokens[live, 0])
    emitted[live, gamma] = draw_by_stretches(bonus, drawn[live, gamma])


class _Normaliser:
    """Normalises a few rows of logits ``(batch, rows, vocab)`` at a time, in memory of its own.

    Memory fresh from the system for each row would cost as much as the arithmetic.
    """

    def __init__(self, logits: Any, n: int, temperature: float) -> None:
        self._flat, self._rows = logits.flatten(0, 1), logits.shape[1]
        self._scores, self._laws = logits.new_empty((2, n, logits.shape[-1]))
        self._temperature = temperature

    def law(self, blocks: Any, place: int, ids: Any) -> tuple[Any, Any]:
        """Laws of some blocks at a place, and the logarithm of one token's probability in each.

        The laws are overwritten by the next call; the logarithms are float64.
        """
        import torch

        scores, law = self._scores[: len(blocks)], self._laws[: len(blocks)]
        torch.index_select(self._flat, 0, blocks * self._rows + place, out=scores)
        if self._temperature != 1:
            scores /= self._temperature
        torch.softmax(scores, -1, out=law)
        # The softmax of the largest score is one over the sum of exp(score - largest).
        gap = scores.gather(-1, ids[:, None])[:, 0].double() - scores.amax(-1).double()
        return law, gap + law.amax(-1).double().log()


def _residual(target: Any, draft: Any) -> Any:
    import torch

    excess = torch.sub(target, draft, out=draft).clamp_(min=0)
    bare = excess.amax(-1, keepdim=True) <= 0  # of probability zero, up to rounding
    return torch.where(bare, target, excess) if bool(bare.any()) else excess
