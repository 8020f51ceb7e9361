"""Draws from categorical laws: by the library's own sampler, or by inverting the distribution."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from specverify._arrays import Array, ArrayT, FloatArray, is_torch, namespace
from specverify.errors import InvalidInputError

__all__ = ["Generator", "categorical_from_uniforms", "pick_token", "sample_categorical", "uniforms"]

Generator: TypeAlias = Any
"""A ``torch.Generator`` for tensors, a ``numpy.random.Generator`` for numpy arrays, or None."""


def sample_categorical(probs: Any, generator: Generator = None) -> Any:
    """Draw one token from each law.

    Tensors are sampled by ``torch.multinomial``, so that seeded runs repeat what the usual torch
    code gives; numpy arrays by inverting the cumulative distribution.

    Args:
        probs: Nonnegative weights with a positive sum, shape ``(..., vocab)``.
        generator: Source of randomness; the library's unseeded or global one by default.

    Returns:
        Token ids, int64, shape ``(...)``; never one of weight zero.

    Raises:
        InvalidInputError: If the generator is of the other library.
    """
    check_generator(probs, generator)
    if not is_torch(probs):
        return categorical_from_uniforms(probs, uniforms(probs, probs.shape[:-1], generator))
    import torch

    rows = probs.reshape(-1, probs.shape[-1])
    drawn = torch.multinomial(rows, 1, generator=generator)
    return drawn.reshape(probs.shape[:-1])


def categorical_from_uniforms(probs: ArrayT, uniforms: ArrayT) -> ArrayT:
    """The token whose interval of the cumulative distribution holds the uniform.

    The uniform is scaled by the total, which may miss one by rounding (or by far: weights need not
    be normalised). The sums run in float64 whatever the dtype of ``probs``.

    Args:
        probs: Nonnegative weights with a positive sum, shape ``(..., vocab)``.
        uniforms: Numbers in [0, 1), shape ``(...)``.

    Returns:
        Token ids, int64, shape ``(...)``; never one of weight zero.

    References:
        Devroye (1986), Non-Uniform Random Variate Generation, section III.2.1.
    """
    xp = namespace(probs, uniforms)
    cumulative = _cumulative(xp, probs)
    total = cumulative[..., -1:]
    below = xp.sum(cumulative <= xp.expand_dims(uniforms, axis=-1) * total, axis=-1)
    # A uniform next to one can round up to the total: stop at the last token that has mass.
    last = xp.sum(cumulative < total, axis=-1)
    tokens: ArrayT = xp.minimum(below, last)
    return tokens


def pick_token(probs: FloatArray, uniform: float) -> int:
    """One draw by :func:`categorical_from_uniforms`, without its overhead.

    Args:
        probs: Nonnegative weights with a positive sum, numpy, shape ``(vocab,)``.
        uniform: A number in [0, 1).
    """
    cumulative = np.add.accumulate(probs, dtype=np.float64)
    total = cumulative[-1]
    goal = uniform * total
    if goal < total:
        return int(cumulative.searchsorted(goal, side="right"))
    # A uniform next to one can round up to the total: stop at the last token that has mass.
    return int(cumulative.searchsorted(total, side="left"))


def uniforms(like: Array, shape: tuple[int, ...], generator: Generator = None) -> Array:
    """Uniforms in [0, 1), float64, of the library and on the device of ``like``.

    Args:
        like: An array that says which library and device.
        shape: Shape of the result.
        generator: Source of randomness; the library's unseeded or global one by default.
    """
    if not is_torch(like):
        rng = np.random.default_rng() if generator is None else generator
        drawn: Array = rng.random(shape)
        return drawn
    import torch

    device = like.device if generator is None else generator.device
    fresh = torch.rand(shape, generator=generator, dtype=torch.float64, device=device)
    return fresh.to(like.device)


def check_generator(like: Array, generator: Generator) -> None:
    """Refuse a generator that cannot draw for arrays such as ``like``.

    Raises:
        InvalidInputError: If it belongs to the other library.
    """
    if generator is None:
        return
    wanted = "torch" if is_torch(like) else "numpy"
    kind = type(generator).__module__.partition(".")[0]
    # A foreign class may well be a wrapper that draws for this library; the other library cannot.
    if kind in {"torch", "numpy"} - {wanted}:
        raise InvalidInputError("generator", f"draws for {kind}, but the arrays are {wanted}'s")


def _cumulative(xp: Any, probs: Any) -> Any:
    sums = xp.cumulative_sum(probs, axis=-1, dtype=xp.float64)
    if is_torch(probs) and probs.device.type != "cpu":
        # A parallel scan adds in another order at each place: without this, rounding may give a
        # token of weight zero an interval of its own, or let the sums decrease.
        sums = xp.where(probs > 0, sums, xp.zeros_like(sums)).cummax(dim=-1).values
    return sums
