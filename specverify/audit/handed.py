"""What an engine's own verification was handed, counted beside what it should have been.

It judges nothing: a scheme that is lossless may be handed anything. Where the law breaks, it says
on which side.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from specverify.audit.forms import Handed
from specverify.audit.tally import Tally

__all__ = [
    "DRAFTS",
    "GREEDY",
    "HANDED_BINS",
    "MICRO_TV",
    "ROWS",
    "ROW_TV",
    "count_handed",
    "filled",
]

HANDED_BINS = 16
"""Cells of the transform of drafts under the law that they were scored with."""

ROW_TV = 1e-3
"""A row is counted as another one from this total variation on: no rounding of float32."""

MICRO_TV = 1_000_000
"""Distances and logarithms are summed in millionths: a tally holds integers."""

DRAFTS, GREEDY, ROWS = "handed-drafts", "handed-greedy", "handed-rows"
"""Tables: transforms by order (probability, id); soft rows, drafts that are most probable in them,
and the nats by which it is improbable that all are; by side (target, draft) rows, rows that differ,
and the sum of distances."""

_SOFT = 0.9
"""Most that the likeliest token of a row has for a draft of it to tell anything."""

Floats = NDArray[np.float64]


def count_handed(
    tally: Tally,
    tokens: NDArray[np.int64],
    laws: tuple[Floats, Floats | None],
    handed: Handed,
    rng: np.random.Generator,
) -> None:
    """Count the drafts of a batch of completions, and the rows that they were verified with.

    Args:
        tally: Where to.
        tokens: The completions, shape ``(n, length)``, padded with -1.
        laws: Our laws along them, target's and, where it is known, draft's, ``(n, length, vocab)``.
        handed: What verification was handed.
        rng: Source of the randomisation of transforms.
    """
    rows, positions, drafts, target_probs, draft_probs = _inside(tokens, handed)
    transforms = tally.table(DRAFTS, (2, HANDED_BINS))
    by_probability: Floats = np.negative(draft_probs)
    by_id: Floats = np.broadcast_to(_ids(draft_probs).astype(np.float64), draft_probs.shape)
    for which, keys in enumerate((by_probability, by_id)):
        transforms[which] += _transform(keys, draft_probs, drafts, rng)
    soft = draft_probs.max(axis=-1) < _SOFT
    likeliest = drafts == draft_probs.argmax(axis=-1)
    nats = -np.log(draft_probs.max(axis=-1)[soft]).sum()
    greedy = np.array([soft.sum(), (soft & likeliest).sum(), np.floor(nats * MICRO_TV)])
    tally.table(GREEDY, (3,))[...] += greedy.astype(np.int64)
    compared = tally.table(ROWS, (2, 3))
    for side, (own, given) in enumerate(zip(laws, (target_probs, draft_probs), strict=True)):
        if own is not None:
            distance = 0.5 * np.abs(own[rows, positions] - given).sum(axis=-1)
            total = round(float(distance.sum()) * MICRO_TV)
            compared[side] += np.array([len(distance), (distance > ROW_TV).sum(), total])


def filled(target: Floats, tokens: NDArray[np.int64], handed: Handed) -> Floats:
    """A draft law along completions from the rows that were handed over.

    Where nothing was drafted it is the target's: no bug of verification shows there.

    Args:
        target: The target's laws, shape ``(n, length, vocab)``.
        tokens: The completions, shape ``(n, length)``, padded with -1.
        handed: What verification was handed.
    """
    draft = target.copy()
    rows, positions, _, _, draft_probs = _inside(tokens, handed)
    draft[rows, positions] = draft_probs
    return draft


def _inside(
    tokens: NDArray[np.int64], handed: Handed
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], Floats, Floats]:
    """The entries at positions that were emitted: an end may cut a block short."""
    inside = handed.positions < (tokens >= 0).sum(axis=1)[handed.rows]
    return (
        handed.rows[inside],
        handed.positions[inside],
        handed.drafts[inside],
        handed.target_probs[inside],
        handed.draft_probs[inside],
    )


def _transform(
    keys: NDArray[np.float64], law: Floats, drafts: NDArray[np.int64], rng: np.random.Generator
) -> NDArray[np.int64]:
    """Counts of the randomised transform of each draft, tokens in the order of their keys."""
    ids = drafts[:, None]
    key = np.take_along_axis(keys, ids, axis=-1)
    ties = (keys == key) & (_ids(law) < ids)
    below = np.sum(np.where((keys < key) | ties, law, 0.0), axis=-1)
    mass = np.take_along_axis(law, ids, axis=-1)[:, 0]
    place = np.clip(below + mass * rng.random(len(drafts)), 0.0, 1 - 1e-12)
    return np.bincount((place * HANDED_BINS).astype(np.int64), minlength=HANDED_BINS)


def _ids(law: Floats) -> NDArray[np.int64]:
    return np.arange(law.shape[-1])
