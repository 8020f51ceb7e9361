"""Block verifiers with one property each, for the tests of ``specverify.testing``."""

from __future__ import annotations

from typing import Any

import numpy as np


def right(target: Any, draft: Any, tokens: Any, rng: Any) -> Any:
    for place, token in enumerate(tokens):
        if rng.random() >= target[place, token] / draft[place, token]:
            excess = np.maximum(target[place] - draft[place], 0)
            return [*tokens[:place], rng.choice(len(excess), p=excess / excess.sum())]
    return [*tokens, rng.choice(target.shape[1], p=target[-1])]


def keyword_only(target: Any, draft: Any, tokens: Any, *, generator: Any) -> Any:
    return right(target, draft, tokens, generator)


def from_target(target: Any, draft: Any, tokens: Any, rng: Any) -> Any:
    for place, token in enumerate(tokens):
        if rng.random() >= target[place, token] / draft[place, token]:
            return [*tokens[:place], rng.choice(target.shape[1], p=target[place])]
    return [*tokens, rng.choice(target.shape[1], p=target[-1])]


def late_bias(target: Any, draft: Any, tokens: Any, rng: Any) -> Any:
    """The bonus of a block of two comes from the row before; the first two tokens are right."""
    emitted = right(target, draft, tokens, rng)
    if len(emitted) == 3:
        emitted[2] = rng.choice(target.shape[1], p=target[1])
    return emitted


def permuted(target: Any, draft: Any, tokens: Any, rng: Any) -> Any:
    """The first two tokens are perfectly coupled: right marginals, wrong joint law."""
    u = rng.random()
    first = int(np.searchsorted(np.cumsum(target[0])[:-1], u, side="right"))
    second = int(np.searchsorted(np.cumsum(target[1])[:-1], u, side="right"))
    return [first, second]


def no_bonus(target: Any, draft: Any, tokens: Any, rng: Any) -> Any:
    emitted = right(target, draft, tokens, rng)
    return emitted[: len(tokens)]


def forbidden(target: Any, draft: Any, tokens: Any, rng: Any) -> Any:
    """Corrects uniformly, whether the target allows the token or not."""
    for place, token in enumerate(tokens):
        if rng.random() >= target[place, token] / draft[place, token]:
            return [*tokens[:place], rng.integers(target.shape[1])]
    return [*tokens, rng.choice(target.shape[1], p=target[-1])]


def writes(target: Any, draft: Any, tokens: Any, rng: Any) -> Any:
    emitted = right(target, draft, tokens, rng)
    target[:] = 0
    return emitted


def raises(target: Any, draft: Any, tokens: Any, rng: Any) -> Any:
    emitted = right(target, draft, tokens, rng)
    if len(emitted) == 1:
        raise IndexError("empty slice")
    return emitted


def too_long(target: Any, draft: Any, tokens: Any, rng: Any) -> Any:
    return [*right(target, draft, tokens, rng), *tokens, 0]


def opaque(target: Any, draft: Any, tokens: Any, rng: Any) -> Any:
    """Right, from raw bits that the tracer does not follow."""
    return _opaque(target, draft, tokens, rng)


def opaque_from_target(target: Any, draft: Any, tokens: Any, rng: Any) -> Any:
    """Corrects from the target, from raw bits that the tracer does not follow."""
    return _opaque(target, np.zeros_like(draft), tokens, rng, ratio=draft)


def unseeded(target: Any, draft: Any, tokens: Any, rng: Any) -> Any:
    """Right, with a generator of its own."""
    return right(target, draft, tokens, np.random.default_rng())


def _opaque(target: Any, draft: Any, tokens: Any, rng: Any, ratio: Any = None) -> Any:
    ratio = draft if ratio is None else ratio
    for place, token in enumerate(tokens):
        if _uniform(rng) * ratio[place, token] >= target[place, token]:
            excess = np.maximum(target[place] - draft[place], 0)
            return [*tokens[:place], _invert(excess / excess.sum(), rng)]
    return [*tokens, _invert(target[-1], rng)]


def _uniform(rng: Any) -> float:
    return (int(rng.bit_generator.random_raw()) >> 11) * 2.0**-53


def _invert(law: Any, rng: Any) -> int:
    return int(np.searchsorted(np.cumsum(law)[:-1], _uniform(rng), side="right"))


def residual_of_first_row(targets: Any, drafts: Any, tokens: Any, rng: Any) -> Any:
    """Right in a batch of one; in others every row is corrected from the first row's residual."""
    emitted = np.full((len(tokens), targets.shape[1]), -1)
    for row, block in enumerate(tokens):
        for place, token in enumerate(block):
            if rng.random() >= targets[row, place, token] / drafts[row, place, token]:
                law = np.maximum(targets[0, place] - drafts[0, place], 0)
                break
            emitted[row, place] = token
        else:
            place, law = len(block), targets[row, -1]
        emitted[row, place] = rng.choice(len(law), p=law / law.sum())
    return emitted


def opaque_residual_of_first_row(targets: Any, drafts: Any, tokens: Any, rng: Any) -> Any:
    """The same, from raw bits that the tracer does not follow."""
    hidden = np.random.Generator(type(rng.bit_generator)(int(rng.bit_generator.random_raw())))
    return residual_of_first_row(targets, drafts, tokens, hidden)
