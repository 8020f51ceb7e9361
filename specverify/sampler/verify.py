"""Verification of one block, drawn in the order that the usual torch code draws in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from specverify._arrays import ArrayT, is_torch, namespace
from specverify.distributions import residual_distribution
from specverify.sampler.checks import check_block_laws, check_block_shapes
from specverify.sampler.draws import Generator, check_generator, sample_categorical

__all__ = ["SMALLEST_DIVISOR", "accepted_prefix", "speculative_verify"]

SMALLEST_DIVISOR = float(np.finfo(np.float64).smallest_normal)
"""Stands in for a draft probability of zero: the ratio stays finite, and zero over zero rejects."""


def speculative_verify(
    target_probs: ArrayT,
    draft_probs: ArrayT,
    draft_tokens: ArrayT,
    generator: Generator = None,
    *,
    validate: bool = True,
) -> tuple[ArrayT, int]:
    """Accept a prefix of the drafts, then emit one more token, so that the target's law results.

    Draft ``x`` is accepted with probability ``min(1, target(x) / draft(x))``. The first rejected
    one is replaced by a draw from the residual; after the last accepted one a bonus token is drawn
    from the last target row. One uniform is drawn for each test, up to the first rejection, then
    one token: with a seeded ``torch.Generator``, ``torch.rand(1)`` and ``torch.multinomial`` in
    that order.

    Args:
        target_probs: Target rows, shape ``(gamma + 1, vocab)``.
        draft_probs: Draft rows that the drafts were drawn from, shape ``(gamma, vocab)``.
        draft_tokens: Drafted ids, shape ``(gamma,)``; ``gamma`` may be 0.
        generator: ``torch.Generator`` or ``numpy.random.Generator``, as the arrays are.
        validate: Whether to check values (shapes are always checked).

    Returns:
        The emitted ids, int64, shape ``(n_accepted + 1,)``, and ``n_accepted``.

    Raises:
        InvalidInputError: If shapes, ids or rows are unusable.

    References:
        Leviathan et al. (2023), arXiv:2211.17192, algorithm 1; Chen et al. (2023),
        arXiv:2302.01318, algorithm 2.
    """
    check_block_shapes(target_probs, draft_probs, draft_tokens, batched=False)
    check_generator(target_probs, generator)
    if validate:
        check_block_laws(target_probs, draft_probs, draft_tokens)
    next_uniform = _uniform_source(target_probs, generator)
    n_accepted = accepted_prefix(target_probs, draft_probs, draft_tokens, next_uniform)
    last = target_probs[n_accepted]
    if n_accepted < draft_tokens.shape[0]:
        last = residual_distribution(last, draft_probs[n_accepted])
    xp = namespace(target_probs)
    token = xp.reshape(xp.asarray(sample_categorical(last, generator)), (1,))
    emitted: ArrayT = xp.concat([xp.astype(draft_tokens[:n_accepted], xp.int64), token])
    return emitted, n_accepted


def accepted_prefix(
    target_probs: Any, draft_probs: Any, draft_tokens: Any, next_uniform: Callable[[], float]
) -> int:
    """Number of drafts accepted before the first rejection; one uniform is asked for each test.

    Args:
        target_probs: Target rows, shape ``(gamma + 1, vocab)``.
        draft_probs: Draft rows, shape ``(gamma, vocab)``.
        draft_tokens: Drafted ids, ``gamma`` of them.
        next_uniform: Gives a fresh number in [0, 1).
    """
    for position, token in enumerate(draft_tokens):
        target = target_probs[position, token].item()
        draft = draft_probs[position, token].item()
        # Strict, so that a token which the target excludes is refused even by a uniform of 0.
        if not next_uniform() < target / max(draft, SMALLEST_DIVISOR):
            return position
    return len(draft_tokens)


def _uniform_source(like: Any, generator: Generator) -> Callable[[], float]:
    if not is_torch(like):
        rng = np.random.default_rng() if generator is None else generator
        source: Callable[[], float] = rng.random
        return source
    import torch

    device = "cpu" if generator is None else generator.device
    return lambda: torch.rand(1, generator=generator, device=device).item()
