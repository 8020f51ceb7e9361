"""The verifiers of ``biased.py`` once more, as somebody might write them with numpy."""

from __future__ import annotations

import numpy as np


def _normalised(weights: np.ndarray) -> np.ndarray:
    return weights / weights.sum(axis=-1, keepdims=True)


def _residual(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    excess = np.clip(p - q, 0, None)
    return _normalised(excess) if excess.sum() > 0 else p


def _accepted(p: np.ndarray, q: np.ndarray, x: np.ndarray, rng: np.random.Generator) -> int:
    for i, token in enumerate(x):
        if rng.random() >= p[i, token] / q[i, token]:
            return i
    return len(x)


def _emit(
    x: np.ndarray, n: int, law: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, int]:
    return np.append(x[:n], rng.choice(len(law), p=law)), n


def correct(
    target_probs: np.ndarray,
    draft_probs: np.ndarray,
    draft_tokens: np.ndarray,
    generator: np.random.Generator,
) -> tuple[np.ndarray, int]:
    """The standard rule."""
    n = _accepted(target_probs, draft_probs, draft_tokens, generator)
    full = n == len(draft_tokens)
    law = target_probs[n] if full else _residual(target_probs[n], draft_probs[n])
    return _emit(draft_tokens, n, law, generator)


def resample_from_target(
    target_probs: np.ndarray,
    draft_probs: np.ndarray,
    draft_tokens: np.ndarray,
    generator: np.random.Generator,
) -> tuple[np.ndarray, int]:
    """Draws the correction from the target, not from the residual."""
    n = _accepted(target_probs, draft_probs, draft_tokens, generator)
    return _emit(draft_tokens, n, target_probs[n], generator)


def abs_residual(
    target_probs: np.ndarray,
    draft_probs: np.ndarray,
    draft_tokens: np.ndarray,
    generator: np.random.Generator,
) -> tuple[np.ndarray, int]:
    """Takes the absolute difference where the positive part is meant."""
    n = _accepted(target_probs, draft_probs, draft_tokens, generator)
    law = target_probs[n]
    if n < len(draft_tokens):
        law = _normalised(np.abs(target_probs[n] - draft_probs[n]))
    return _emit(draft_tokens, n, law, generator)


def q_row_off(
    target_probs: np.ndarray,
    draft_probs: np.ndarray,
    draft_tokens: np.ndarray,
    generator: np.random.Generator,
) -> tuple[np.ndarray, int]:
    """Reads the draft's row of the position before (the last one for the first)."""
    return correct(target_probs, np.roll(draft_probs, 1, axis=0), draft_tokens, generator)


def bonus_from_q(
    target_probs: np.ndarray,
    draft_probs: np.ndarray,
    draft_tokens: np.ndarray,
    generator: np.random.Generator,
) -> tuple[np.ndarray, int]:
    """Draws the bonus token from the draft's last row."""
    rows = np.concatenate([target_probs[:-1], draft_probs[-1:]])
    return correct(rows, draft_probs, draft_tokens, generator)


def temperature_one_side(
    target_probs: np.ndarray,
    draft_probs: np.ndarray,
    draft_tokens: np.ndarray,
    generator: np.random.Generator,
) -> tuple[np.ndarray, int]:
    """Applies a temperature of 0.8 to the target once more."""
    return correct(_normalised(target_probs ** (1 / 0.8)), draft_probs, draft_tokens, generator)


def reused_uniform(
    target_probs: np.ndarray,
    draft_probs: np.ndarray,
    draft_tokens: np.ndarray,
    generator: np.random.Generator,
) -> tuple[np.ndarray, int]:
    """Inverts the residual's distribution function at the uniform that rejected the draft."""
    for i, token in enumerate(draft_tokens):
        u = generator.random()
        if u >= target_probs[i, token] / draft_probs[i, token]:
            edges = np.cumsum(_residual(target_probs[i], draft_probs[i]))
            final = next((k for k, edge in enumerate(edges[:-1]) if u < edge), len(edges) - 1)
            return np.append(draft_tokens[:i], final), i
    n = len(draft_tokens)
    return _emit(draft_tokens, n, target_probs[n], generator)
