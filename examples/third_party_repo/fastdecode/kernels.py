"""Block verifiers: what is emitted for drafted tokens. One is right, two have a defect each."""

from __future__ import annotations

import numpy as np


def verify(
    target_probs: np.ndarray,
    draft_probs: np.ndarray,
    draft_tokens: np.ndarray,
    rng: np.random.Generator,
) -> tuple[list[int], int]:
    """Accept with probability ``min(1, p / q)``; correct from the residual; add a bonus token."""
    for i, token in enumerate(draft_tokens):
        if rng.random() >= target_probs[i, token] / draft_probs[i, token]:
            excess = np.maximum(target_probs[i] - draft_probs[i], 0)
            correction = rng.choice(len(excess), p=excess / excess.sum())
            return [*draft_tokens[:i], correction], i
    bonus = rng.choice(target_probs.shape[1], p=target_probs[-1])
    return [*draft_tokens, bonus], len(draft_tokens)


def verify_legacy(
    target_probs: np.ndarray,
    draft_probs: np.ndarray,
    draft_tokens: np.ndarray,
    rng: np.random.Generator,
) -> tuple[list[int], int]:
    """A known defect, kept for old users: the correction comes from the target itself."""
    for i, token in enumerate(draft_tokens):
        if rng.random() >= target_probs[i, token] / draft_probs[i, token]:
            correction = rng.choice(target_probs.shape[1], p=target_probs[i])
            return [*draft_tokens[:i], correction], i
    bonus = rng.choice(target_probs.shape[1], p=target_probs[-1])
    return [*draft_tokens, bonus], len(draft_tokens)


def verify_fused(
    target_probs: np.ndarray,
    draft_probs: np.ndarray,
    draft_tokens: np.ndarray,
    rng: np.random.Generator,
) -> tuple[list[int], int]:
    """A defect that nobody knows of yet: the uniform that rejects also draws the correction."""
    for i, token in enumerate(draft_tokens):
        uniform = rng.random()
        if uniform >= target_probs[i, token] / draft_probs[i, token]:
            excess = np.maximum(target_probs[i] - draft_probs[i], 0)
            edges = np.cumsum(excess / excess.sum())
            return [*draft_tokens[:i], np.searchsorted(edges[:-1], uniform, side="right")], i
    bonus = rng.choice(target_probs.shape[1], p=target_probs[-1])
    return [*draft_tokens, bonus], len(draft_tokens)
