"""Categorical laws of one speculative step: pure functions of probability vectors.

Every function takes numpy arrays or torch tensors, with any leading batch axes, and gives back the
same kind, dtype and device.
"""

from __future__ import annotations

from typing import Any

from specverify._arrays import Array, ArrayT, namespace
from specverify.errors import InvalidInputError

__all__ = [
    "acceptance_probabilities",
    "acceptance_rate",
    "check_distribution",
    "one_hot",
    "residual_distribution",
    "total_variation",
]

# A float16 or bfloat16 softmax row may be this far from one; float32 and float64 rows are not.
_SUM_TOLERANCE = {"float64": 1e-6, "float32": 1e-4, "float16": 1e-2, "bfloat16": 2e-2}


def total_variation(target_probs: ArrayT, draft_probs: ArrayT) -> ArrayT:
    """Total variation distance ``0.5 * sum |target - draft|`` over the last axis.

    Args:
        target_probs: Probabilities, shape ``(..., vocab)``.
        draft_probs: Probabilities, same shape.

    Returns:
        Distances in [0, 1], shape ``(...)``.

    Raises:
        InvalidInputError: If the shapes differ or the vocabulary is empty.
    """
    xp = _same_shape(target_probs, draft_probs)
    distance: ArrayT = xp.sum(xp.abs(target_probs - draft_probs), axis=-1) * 0.5
    return distance


def acceptance_rate(target_probs: ArrayT, draft_probs: ArrayT) -> ArrayT:
    """Probability ``sum min(target, draft) = 1 - TV`` that a draft token is accepted.

    Args:
        target_probs: Probabilities, shape ``(..., vocab)``.
        draft_probs: Probabilities, same shape.

    Returns:
        Acceptance rates in [0, 1], shape ``(...)``.

    Raises:
        InvalidInputError: If the shapes differ or the vocabulary is empty.

    References:
        Leviathan et al. (2023), arXiv:2211.17192, corollary 3.6.
    """
    xp = _same_shape(target_probs, draft_probs)
    rate: ArrayT = xp.sum(xp.minimum(target_probs, draft_probs), axis=-1)
    return rate


def acceptance_probabilities(target_probs: ArrayT, draft_probs: ArrayT) -> ArrayT:
    """Probability ``min(1, target / draft)`` that each token is accepted once drafted.

    Args:
        target_probs: Probabilities, shape ``(..., vocab)``.
        draft_probs: Probabilities, same shape.

    Returns:
        Probabilities, shape ``(..., vocab)``; 1 where the draft has no mass (never drafted).

    Raises:
        InvalidInputError: If the shapes differ or the vocabulary is empty.

    References:
        Leviathan et al. (2023), arXiv:2211.17192, section 2.3.
    """
    xp = _same_shape(target_probs, draft_probs)
    drafted = draft_probs > 0
    safe = xp.where(drafted, draft_probs, xp.ones_like(draft_probs))
    ratio = xp.minimum(target_probs, safe) / safe
    probabilities: ArrayT = xp.where(drafted, ratio, xp.ones_like(ratio))
    return probabilities


def residual_distribution(target_probs: ArrayT, draft_probs: ArrayT) -> ArrayT:
    """Law of the token drawn after a rejection: normalised ``max(target - draft, 0)``.

    Args:
        target_probs: Target probabilities, shape ``(..., vocab)``; the last axis sums to one.
        draft_probs: Draft probabilities, same shape.

    Returns:
        Probabilities, shape ``(..., vocab)``. Where the two coincide a rejection has probability
        zero and the residual is undefined; the target is returned there.

    Raises:
        InvalidInputError: If the shapes differ or the vocabulary is empty.

    References:
        Leviathan et al. (2023), arXiv:2211.17192, section 2.3.
    """
    xp = _same_shape(target_probs, draft_probs)
    excess = xp.clip(target_probs - draft_probs, min=0)
    mass = xp.sum(excess, axis=-1, keepdims=True)
    safe = xp.where(mass > 0, mass, xp.ones_like(mass))
    residual: ArrayT = xp.where(mass > 0, excess / safe, target_probs)
    return residual


def one_hot(tokens: Array, vocab_size: int, *, dtype: Any = None) -> Array:
    """Point masses: the law of a deterministic (greedy, T = 0) choice.

    Args:
        tokens: Token ids in ``[0, vocab_size)``, integer, shape ``(...)``.
        vocab_size: Size of the vocabulary.
        dtype: Floating dtype of the result; the namespace's ``float64`` by default.

    Returns:
        Probabilities, shape ``(..., vocab_size)``.
    """
    xp = namespace(tokens)
    ids = xp.arange(vocab_size, device=getattr(tokens, "device", None))
    hits: Array = xp.astype(xp.expand_dims(tokens, axis=-1) == ids, dtype or xp.float64)
    return hits


def check_distribution(argument: str, probs: Array, *, tolerance: float | None = None) -> None:
    """Refuse anything that is not a probability vector along its last axis.

    Args:
        argument: Name to use in the message.
        probs: Probabilities, shape ``(..., vocab)``.
        tolerance: Largest ``|sum - 1|``; by dtype when not given (float64: 1e-6, float32: 1e-4).

    Raises:
        InvalidInputError: If the vocabulary is empty, the dtype is not floating, an entry is NaN,
            infinite or negative, or a row does not sum to one.
    """
    xp = namespace(probs)
    dtype = str(probs.dtype).rpartition(".")[2]
    if probs.ndim == 0 or probs.shape[-1] == 0:
        raise InvalidInputError(argument, f"empty vocabulary, shape {tuple(probs.shape)}")
    if dtype not in _SUM_TOLERANCE:
        raise InvalidInputError(argument, f"needs a floating dtype, got {dtype}")
    if not bool(xp.all(xp.isfinite(probs))):
        raise InvalidInputError(argument, "has NaN or infinite entries")
    if bool(xp.any(probs < 0)):
        raise InvalidInputError(argument, f"has a negative entry, {float(xp.min(probs)):.6g}")
    off = xp.abs(xp.sum(probs, axis=-1) - 1)
    worst = float(xp.max(off)) if off.ndim == 0 or 0 not in off.shape else 0.0
    if worst > (_SUM_TOLERANCE[dtype] if tolerance is None else tolerance):
        raise InvalidInputError(argument, f"a row does not sum to one (off by {worst:.3g})")


def _same_shape(target_probs: Array, draft_probs: Array) -> Any:
    if tuple(target_probs.shape) != tuple(draft_probs.shape):
        raise InvalidInputError(
            "draft_probs",
            f"shape {tuple(draft_probs.shape)} differs from target_probs' "
            f"{tuple(target_probs.shape)}",
        )
    if target_probs.ndim == 0 or target_probs.shape[-1] == 0:
        raise InvalidInputError("target_probs", f"empty vocabulary, {tuple(target_probs.shape)}")
    return namespace(target_probs, draft_probs)
