"""Verification of many blocks at once: no loop over rows, positions or the vocabulary."""

from __future__ import annotations

from typing import Any, NamedTuple

from specverify._arrays import Array, namespace, to_numpy
from specverify.errors import InvalidInputError
from specverify.sampler.checks import (
    block_lengths,
    check_block_laws,
    check_block_shapes,
    check_lengths,
    live_rows,
)
from specverify.sampler.draws import (
    Generator,
    categorical_from_uniforms,
    check_generator,
    uniforms,
)
from specverify.sampler.long_rows import LastRows, is_long
from specverify.sampler.one_by_one import Laws, is_on_host, like, verify_in_turn
from specverify.sampler.verify import SMALLEST_DIVISOR

__all__ = ["BlockBatch", "verify_blocks", "verify_blocks_from_uniforms"]

_MANY = 32  # fewer blocks cost less one after another


class BlockBatch(NamedTuple):
    """What became of a batch of blocks.

    Attributes:
        emitted: Emitted ids, int64, shape ``(batch, gamma + 1)``; row ``b`` holds
            ``n_accepted[b] + 1`` of them and is padded with -1.
        n_accepted: Accepted drafts, int64, shape ``(batch,)``.
    """

    emitted: Any
    n_accepted: Any


def verify_blocks(
    target_probs: Array,
    draft_probs: Array,
    draft_tokens: Array,
    generator: Generator = None,
    *,
    draft_lengths: Any = None,
    validate: bool = True,
) -> BlockBatch:
    """Verify a batch of blocks with fresh uniforms.

    Args:
        target_probs: Target rows, shape ``(batch, gamma + 1, vocab)``.
        draft_probs: Draft rows, shape ``(batch, gamma, vocab)``.
        draft_tokens: Drafted ids, shape ``(batch, gamma)``.
        generator: ``torch.Generator`` or ``numpy.random.Generator``, as the arrays are.
        draft_lengths: Drafts of each row, shape ``(batch,)``, where rows have fewer than
            ``gamma``; whatever stands beyond is ignored.
        validate: Whether to check values, which a device must be waited for (shapes are always
            checked). Without it nothing is copied to the host.

    Returns:
        The emitted tokens and the numbers of accepted drafts.

    Raises:
        InvalidInputError: If shapes, lengths, ids or rows are unusable.

    References:
        Leviathan et al. (2023), arXiv:2211.17192, algorithm 1.
    """
    check_block_shapes(target_probs, draft_probs, draft_tokens, batched=True)
    check_generator(target_probs, generator)
    lengths = block_lengths(draft_tokens, draft_lengths)
    if validate:
        _check_values(target_probs, draft_probs, draft_tokens, lengths)
    batch, gamma = draft_tokens.shape
    drawn = uniforms(target_probs, (batch, gamma + 1), generator)
    return _verify((target_probs, draft_probs, draft_tokens), drawn, lengths)


def verify_blocks_from_uniforms(
    target_probs: Array,
    draft_probs: Array,
    draft_tokens: Array,
    *,
    accept_uniforms: Array,
    token_uniforms: Array,
    draft_lengths: Any = None,
    validate: bool = True,
) -> BlockBatch:
    """Verify a batch of blocks with given uniforms: a pure function, numpy and torch alike.

    Args:
        target_probs: Target rows, shape ``(batch, gamma + 1, vocab)``.
        draft_probs: Draft rows, shape ``(batch, gamma, vocab)``.
        draft_tokens: Drafted ids, shape ``(batch, gamma)``.
        accept_uniforms: One uniform in [0, 1) for each test, shape ``(batch, gamma)``.
        token_uniforms: One for each correction or bonus, shape ``(batch,)``.
        draft_lengths: Drafts of each row, shape ``(batch,)``; all ``gamma`` by default.
        validate: Whether to check values (shapes are always checked).

    Returns:
        The emitted tokens and the numbers of accepted drafts.

    Raises:
        InvalidInputError: If shapes, lengths, ids, uniforms or rows are unusable.
    """
    check_block_shapes(target_probs, draft_probs, draft_tokens, batched=True)
    _check_uniforms("accept_uniforms", accept_uniforms, draft_tokens.shape, validate)
    _check_uniforms("token_uniforms", token_uniforms, draft_tokens.shape[:1], validate)
    lengths = block_lengths(draft_tokens, draft_lengths)
    if validate:
        _check_values(target_probs, draft_probs, draft_tokens, lengths)
    xp = namespace(accept_uniforms, token_uniforms)
    drawn = xp.concat([accept_uniforms, token_uniforms[:, None]], axis=-1)
    return _verify((target_probs, draft_probs, draft_tokens), drawn, lengths)


def _verify(blocks: tuple[Any, Any, Any], drawn: Any, lengths: Any) -> BlockBatch:
    target_probs, draft_probs, draft_tokens = blocks
    if draft_tokens.shape[0] < _MANY and is_on_host(target_probs, draft_probs):
        in_turn = Laws.of(target_probs, draft_probs)
        return BlockBatch(*verify_in_turn(in_turn, draft_tokens, drawn, lengths))
    xp = namespace(target_probs)
    gamma = draft_tokens.shape[1]
    device = getattr(draft_tokens, "device", None)
    if lengths is None:
        lengths = xp.full(draft_tokens.shape[:1], gamma, dtype=xp.int64, device=device)
    places = xp.arange(gamma + 1, device=device)
    live = live_rows(lengths, gamma)
    drafts = xp.where(live, xp.astype(draft_tokens, xp.int64), 0)
    passed = live & (drawn[:, :gamma] < _ratios(xp, target_probs, draft_probs, drafts))
    n_accepted = xp.sum(xp.cumulative_prod(xp.astype(passed, xp.int64), axis=-1), axis=-1)
    laws = target_probs, draft_probs
    last = _last_tokens(laws, n_accepted, n_accepted < lengths, drawn[:, gamma])[:, None]
    padded = xp.concat([drafts, xp.zeros_like(last)], axis=-1)
    ends = n_accepted[:, None]
    emitted = xp.where(places < ends, padded, xp.where(places == ends, last, -1))
    return BlockBatch(emitted, n_accepted)


def _ratios(xp: Any, target_probs: Any, draft_probs: Any, drafts: Any) -> Any:
    """Target over draft probability of each drafted token, float64, shape ``(batch, gamma)``."""
    ids = drafts[..., None]
    target = xp.take_along_axis(target_probs[:, : drafts.shape[1]], ids, axis=-1)[..., 0]
    draft = xp.take_along_axis(draft_probs, ids, axis=-1)[..., 0]
    divisor = xp.clip(xp.astype(draft, xp.float64), min=SMALLEST_DIVISOR)
    return xp.astype(target, xp.float64) / divisor


def _last_tokens(laws: tuple[Any, Any], n_accepted: Any, rejected: Any, token_uniforms: Any) -> Any:
    """Correction or bonus of each block, int64, shape ``(batch,)``."""
    if laws[1].shape[1] and is_long(laws[0]) and is_on_host(*laws):
        rows = LastRows(*map(to_numpy, (*laws, n_accepted, rejected)))
        return like(n_accepted, rows.draw(to_numpy(token_uniforms)))
    weights = _last_weights(laws, n_accepted, rejected)
    return categorical_from_uniforms(weights, token_uniforms)


def _last_weights(laws: tuple[Any, Any], n_accepted: Any, rejected: Any) -> Any:
    """Unnormalised law of each block's last token, shape ``(batch, vocab)``: one row a block."""
    target_probs, draft_probs = laws
    xp = namespace(target_probs)
    blocks = xp.arange(n_accepted.shape[0], device=getattr(n_accepted, "device", None))
    target = _at_least_single(xp, target_probs[blocks, n_accepted])
    gamma = draft_probs.shape[1]
    if gamma == 0:
        return target
    draft = _at_least_single(xp, draft_probs[blocks, xp.clip(n_accepted, max=gamma - 1)])
    excess = xp.clip(target - xp.where(rejected[:, None], draft, 0), min=0)
    # A rejection without any excess has probability zero, up to rounding.
    return xp.where(xp.max(excess, axis=-1, keepdims=True) > 0, excess, target)


def _at_least_single(xp: Any, rows: Any) -> Any:
    return xp.astype(rows, xp.float32) if rows.dtype.itemsize < 4 else rows


def _check_values(target_probs: Any, draft_probs: Any, draft_tokens: Any, lengths: Any) -> None:
    gamma = draft_tokens.shape[1]
    if lengths is None:
        check_block_laws(target_probs, draft_probs, draft_tokens)
        return
    check_lengths(lengths, gamma)
    live = live_rows(lengths, gamma)
    rows = target_probs[live_rows(lengths + 1, gamma + 1)]
    check_block_laws(rows, draft_probs[live], draft_tokens[live])


def _check_uniforms(argument: str, values: Any, shape: Any, validate: bool) -> None:
    if tuple(values.shape) != tuple(shape):
        raise InvalidInputError(argument, f"needs shape {tuple(shape)}, got {tuple(values.shape)}")
    xp = namespace(values)
    if validate and not bool(xp.all((values >= 0) & (values < 1))):
        raise InvalidInputError(argument, "must lie in [0, 1)")
