"""Recipes for target and draft rows: each takes a generator and a number of positions.

Every recipe gives ``(target, draft)``, both of shape ``(positions, contexts, vocab)``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from specverify.warping import SamplingParams, warp_logits

__all__ = [
    "Recipe",
    "disjoint",
    "mixed",
    "near_ties",
    "one_hot_target",
    "same",
    "warped",
    "zeros_in_draft",
    "zeros_in_target",
    "zipf",
]

Floats = NDArray[np.float64]
Recipe: TypeAlias = Callable[[np.random.Generator, int], tuple[Floats, Floats]]


def mixed(
    vocab: int, strength: float = 0.4, *, order: int = 0, concentration: float = 1.0
) -> Recipe:
    """Random target, which looks ``order`` tokens back; the draft mixes it with noise.

    Args:
        vocab: Number of tokens.
        strength: Weight of the noise.
        order: Tokens that a row depends on.
        concentration: Dirichlet parameter of the target; rows differ the more the smaller it is.
    """

    def rows(rng: np.random.Generator, positions: int) -> tuple[Floats, Floats]:
        shape = (positions, vocab**order, vocab)
        target = 0.9 * _dirichlet(rng, shape, concentration) + 0.1 / vocab
        return target, (1 - strength) * target + strength * _dirichlet(rng, shape)

    return rows


def zeros_in_target(vocab: int, zeros: int) -> Recipe:
    """The draft proposes tokens that the target never emits: which ones, changes by position."""

    def rows(rng: np.random.Generator, positions: int) -> tuple[Floats, Floats]:
        target, draft = mixed(vocab)(rng, positions)
        return _forbid(rng, target, zeros), draft

    return rows


def zeros_in_draft(vocab: int, zeros: int) -> Recipe:
    """Some tokens are reached by the residual alone."""

    def rows(rng: np.random.Generator, positions: int) -> tuple[Floats, Floats]:
        target, draft = mixed(vocab)(rng, positions)
        return target, _forbid(rng, draft, zeros)

    return rows


def same(vocab: int) -> Recipe:
    """Target and draft are equal: everything is accepted, the residual is 0/0."""

    def rows(rng: np.random.Generator, positions: int) -> tuple[Floats, Floats]:
        target, _ = mixed(vocab)(rng, positions)
        return target, target.copy()

    return rows


def disjoint(vocab: int) -> Recipe:
    """Nothing is ever accepted; the residual is the target."""

    def rows(rng: np.random.Generator, positions: int) -> tuple[Floats, Floats]:
        half = vocab // 2
        target, draft = np.zeros((2, positions, 1, vocab))
        target[..., :half] = _dirichlet(rng, (positions, 1, half))
        draft[..., half:] = _dirichlet(rng, (positions, 1, vocab - half))
        flipped = np.arange(positions) % 2 == 1
        target[flipped], draft[flipped] = target[flipped, :, ::-1], draft[flipped, :, ::-1]
        return target, draft

    return rows


def near_ties(vocab: int, gap: float = 1e-3) -> Recipe:
    """Target and draft differ by less than a half-precision number can tell."""

    def rows(rng: np.random.Generator, positions: int) -> tuple[Floats, Floats]:
        tilt = np.exp(gap * rng.standard_normal((positions, 1, vocab)))
        target, _ = mixed(vocab)(rng, positions)
        draft = target * tilt
        return target, draft / draft.sum(axis=-1, keepdims=True)

    return rows


def one_hot_target(vocab: int) -> Recipe:
    """Temperature 0 on the target: one token, another at each position."""

    def rows(rng: np.random.Generator, positions: int) -> tuple[Floats, Floats]:
        target = np.zeros((positions, 1, vocab))
        order = rng.permutation(vocab)
        target[np.arange(positions), 0, order[np.arange(positions) % vocab]] = 1.0
        return target, 0.6 * target + 0.4 * _dirichlet(rng, target.shape)

    return rows


def warped(vocab: int, sampling: SamplingParams) -> Recipe:
    """Temperature, top-k or top-p applied to both sides, as a correct caller does."""

    def rows(rng: np.random.Generator, positions: int) -> tuple[Floats, Floats]:
        logits = 1.5 * rng.standard_normal((positions, 1, vocab))
        near = logits + 0.7 * rng.standard_normal(logits.shape)
        return warp_logits(logits, sampling), warp_logits(near, sampling)

    return rows


def zipf(vocab: int, tilt: float = 0.5) -> Recipe:
    """A large vocabulary with a language's tail; the draft is tilted at random."""

    def rows(rng: np.random.Generator, positions: int) -> tuple[Floats, Floats]:
        ranks = 1.0 / (np.arange(vocab) + 2.7) ** 1.1
        target = np.stack([rng.permutation(ranks) for _ in range(positions)])[:, None]
        draft = target * np.exp(tilt * rng.standard_normal(target.shape))
        return _normalised(target), _normalised(draft)

    return rows


def _dirichlet(
    rng: np.random.Generator, shape: tuple[int, ...], concentration: float = 1.0
) -> Floats:
    return _normalised(rng.standard_gamma(concentration, size=shape) + 1e-6)


def _forbid(rng: np.random.Generator, probs: Floats, zeros: int) -> Floats:
    """Take the mass of ``zeros`` random tokens away, others at each row."""
    ranks = np.argsort(rng.random(probs.shape), axis=-1)
    return _normalised(np.where(ranks < zeros, 0.0, probs))


def _normalised(values: Floats) -> Floats:
    rows: Floats = values / values.sum(axis=-1, keepdims=True)
    return rows
