"""What the bets need to know of a token whose context, and hence law, is its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from specverify._memory import keep_freed_memory
from specverify.errors import InvalidInputError
from specverify.stats._check import Floats, Ints, as_probs

__all__ = ["ORDERS", "TokenViews", "view_context", "view_tokens"]

Bools: TypeAlias = NDArray[np.bool_]

ORDERS = ("target/draft", "rank", "id")
# Entries of a block of rows that stays in the cache.
_BLOCK = 1 << 16


@dataclass(frozen=True, eq=False)
class TokenViews:
    """Tokens seen through their own laws; ``n`` tokens, ``laws`` known wrong laws.

    Attributes:
        intervals: Where the token lies in ``[0, 1)`` when the vocabulary's mass is laid out in
            each of ``ORDERS``: the interval of its probability integral transform, shape
            ``(n, 3, 2)``. Tokens that an order cannot tell apart share one interval.
        gains: Whether target exceeds draft at the token, shape ``(n,)``.
        gain_chances: Probability of that under the target, shape ``(n,)``.
        ratios: Known wrong laws' probability of the token over the target's, ``(n, laws)``.
        impossible: Whether the target gives the token no probability, shape ``(n,)``.
        names: Names of the known wrong laws.
    """

    intervals: Floats
    gains: Bools
    gain_chances: Floats
    ratios: Floats
    impossible: Bools
    names: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.gains)


def view_tokens(
    target_probs: Any,
    tokens: Any,
    *,
    draft_probs: Any = None,
    alternatives: Mapping[str, Any] | None = None,
) -> TokenViews:
    """Look at each token through its own laws, in about ten sums over the vocabulary.

    Args:
        target_probs: The target's law of each token given what came before, ``(n, vocab)``.
        tokens: The tokens, int shape ``(n,)``.
        draft_probs: The draft's laws, same shape as the target's; without them the first order
            and the gains say nothing.
        alternatives: Known wrong laws by name, each of the same shape.

    Raises:
        InvalidInputError: If the shapes do not fit, a law is no distribution or a token lies
            outside the vocabulary.

    References:
        Rosenblatt (1952), Annals of Mathematical Statistics 23(3), for the transform; Czado,
        Gneiting and Held (2009), Biometrics 65(4), section 2, for intervals instead of points.
    """
    keep_freed_memory()
    target = as_probs("target_probs", target_probs)
    if target.ndim != 2:
        raise InvalidInputError("target_probs", f"needs two axes, got shape {target.shape}")
    ids = np.asarray(tokens, dtype=np.int64)
    if ids.shape != target.shape[:1] or np.any((ids < 0) | (ids >= target.shape[1])):
        raise InvalidInputError("tokens", f"must be {len(target)} ids in [0, {target.shape[1]})")
    draft = None if draft_probs is None else _same_shape("draft_probs", draft_probs, target)
    laws = {
        name: _same_shape(f"alternatives[{name!r}]", law, target)
        for name, law in (alternatives or {}).items()
    }
    at = target[np.arange(len(ids)), ids]
    below = np.where(at > 0, at, 1.0)
    columns = [law[np.arange(len(ids)), ids] / below for law in laws.values()]
    gains, chances = _gains(target, draft, ids)
    return TokenViews(
        intervals=_intervals(target, draft, ids),
        gains=gains,
        gain_chances=chances,
        ratios=np.array(columns).reshape(len(laws), len(ids)).T,
        impossible=at == 0,
        names=tuple(laws),
    )


def view_context(
    target_probs: Any,
    tokens: Any,
    *,
    draft_probs: Any = None,
    alternatives: Mapping[str, Any] | None = None,
) -> TokenViews:
    """Look at many tokens that share one law: two sorts of the vocabulary, however many they are.

    Args:
        target_probs: The target's law, shape ``(vocab,)``.
        tokens: The tokens, int shape ``(n,)``.
        draft_probs: The draft's law, same shape as the target's.
        alternatives: Known wrong laws by name, each of the same shape.

    Returns:
        What ``view_tokens`` gives on ``n`` copies of the laws.

    Raises:
        InvalidInputError: As ``view_tokens``.
    """
    target = as_probs("target_probs", target_probs)
    if target.ndim != 1:
        raise InvalidInputError("target_probs", f"needs one axis, got shape {target.shape}")
    ids = np.asarray(tokens, dtype=np.int64)
    if ids.ndim != 1 or np.any((ids < 0) | (ids >= len(target))):
        raise InvalidInputError("tokens", f"must be ids in [0, {len(target)}) on one axis")
    draft = None if draft_probs is None else _same_shape("draft_probs", draft_probs, target)
    above = np.ones(len(target), dtype=np.bool_) if draft is None else target > draft
    at = target[ids]
    columns = [
        _same_shape(f"alternatives[{name!r}]", law, target)[ids] / np.where(at > 0, at, 1.0)
        for name, law in (alternatives or {}).items()
    ]
    return TokenViews(
        intervals=_shared_intervals(target, draft)[ids],
        gains=above[ids],
        gain_chances=np.full(len(ids), min(float(target[above].sum()), 1.0)),
        ratios=np.array(columns).reshape(len(columns), len(ids)).T,
        impossible=at == 0,
        names=tuple(alternatives or {}),
    )


def _same_shape(argument: str, probs: Any, target: Floats) -> Floats:
    law = as_probs(argument, probs)
    if law.shape != target.shape:
        raise InvalidInputError(argument, f"needs shape {target.shape}, got {law.shape}")
    return law


def _gains(target: Floats, draft: Floats | None, ids: Ints) -> tuple[Bools, Floats]:
    if draft is None:
        return np.ones(len(ids), dtype=np.bool_), np.ones(len(ids))
    above = target > draft
    chances = np.einsum("nv,nv->n", target, above)
    return above[np.arange(len(ids)), ids], np.minimum(chances, 1.0)


def _intervals(target: Floats, draft: Floats | None, ids: Ints) -> Floats:
    intervals = np.empty((len(ids), len(ORDERS), 2))
    step = max(1, _BLOCK // target.shape[1])
    for start in range(0, len(ids), step):
        rows = slice(start, start + step)
        other = None if draft is None else draft[rows]
        intervals[rows] = _block_intervals(target[rows], other, ids[rows])
    return intervals


def _block_intervals(target: Floats, draft: Floats | None, ids: Ints) -> Floats:
    rows = np.arange(len(ids))
    at = target[rows, ids][:, None]
    found = np.empty((len(ids), len(ORDERS), 2))
    if draft is None:
        found[:, 0] = [0.0, 1.0]
    else:
        # p_y / q_y against p_x / q_x, without dividing.
        mine, theirs = target * draft[rows, ids][:, None], draft * at
        found[:, 0] = _mass(target, mine > theirs, mine == theirs)
    found[:, 1] = _mass(target, target > at, target == at)
    before = np.arange(target.shape[1]) < ids[:, None]
    found[:, 2, 0] = np.einsum("nv,nv->n", target, before)
    found[:, 2, 1] = found[:, 2, 0] + at[:, 0]
    return found


def _mass(target: Floats, ahead: Bools, level: Bools) -> Floats:
    low = np.einsum("nv,nv->n", target, ahead)
    return np.stack([low, low + np.einsum("nv,nv->n", target, level)], axis=1)


def _shared_intervals(target: Floats, draft: Floats | None) -> Floats:
    """Interval of every token in each order, shape ``(vocab, 3, 2)``."""
    intervals = np.empty((len(target), len(ORDERS), 2))
    if draft is None:
        intervals[:, 0] = [0.0, 1.0]
    else:
        both = target + draft
        intervals[:, 0] = _laid_out(target, target / np.where(both > 0, both, 1.0))
    intervals[:, 1] = _laid_out(target, target)
    high = np.cumsum(target)
    intervals[:, 2] = np.stack([high - target, high], axis=1)
    return intervals


def _laid_out(target: Floats, score: Floats) -> Floats:
    """Intervals in decreasing order of a score; tokens of one score share theirs."""
    order = np.argsort(-score, kind="stable")
    edges = np.append(0.0, np.cumsum(target[order]))
    along = score[order]
    new = np.flatnonzero(np.append(True, along[1:] != along[:-1]))
    group = np.cumsum(np.append(True, along[1:] != along[:-1])) - 1
    intervals = np.empty((len(target), 2))
    intervals[order, 0] = edges[new][group]
    intervals[order, 1] = edges[np.append(new[1:], len(target))][group]
    return intervals
