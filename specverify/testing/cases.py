"""The small settings on which laws are enumerated: fixed, and different at every position.

Identical rows would hide every off-by-one. Whole weights keep the numbers short in a report.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from specverify._arrays import FloatArray
from specverify.exact.scenario import BlockScenario
from specverify.models.tabular import TabularModel

__all__ = ["BlockCase", "DecodeCase", "block_cases", "decode_cases"]

_Weights: TypeAlias = tuple[FloatArray, FloatArray]

# Blocks longer than this have two tokens only: paths grow with vocab ** gamma.
_LONG = 3


@dataclass(frozen=True, kw_only=True)
class BlockCase:
    """One block to enumerate.

    Attributes:
        name: Name and sizes.
        scenario: The laws.
        rows: Target rows ``(gamma + 1, vocab)`` and draft rows ``(gamma, vocab)`` where they depend
            on the position alone, else None.
    """

    name: str
    scenario: BlockScenario
    rows: tuple[FloatArray, FloatArray] | None


@dataclass(frozen=True, kw_only=True)
class DecodeCase:
    """One decode loop to enumerate.

    Attributes:
        name: Name and sizes.
        target: Target model.
        draft: Draft model.
        prompt: Tokens before the completion.
        gamma: Drafts in an iteration.
        max_new_tokens: Tokens asked for.
    """

    name: str
    target: TabularModel
    draft: TabularModel
    prompt: tuple[int, ...]
    gamma: int
    max_new_tokens: int


def block_cases(gammas: Sequence[int]) -> Iterator[BlockCase]:
    """Cases for each number of drafts: plain, zeros on either side, disjoint, equal, in context."""
    for gamma in gammas:
        vocab = 3 if gamma <= _LONG else 2
        for name, recipe in _RECIPES.items():
            rng = np.random.default_rng([gamma, *name.encode()])
            target, draft = (_law(weights) for weights in recipe(rng, gamma, vocab))
            yield BlockCase(
                name=f"{name} (V={vocab}, gamma={gamma})",
                scenario=BlockScenario.from_rows(target, draft),
                rows=(target, draft),
            )
        yield _in_context(gamma)


def decode_cases(gammas: Sequence[int]) -> Iterator[DecodeCase]:
    """Loops for each number of drafts, one token longer than a full block, smallest first.

    The models look two tokens back: a state that lost a token, or kept a rejected one, is seen.
    """
    for gamma in gammas:
        target, draft = _models(gamma, order=2)
        for length in (1, min(gamma + 2, 4)):
            yield DecodeCase(
                name=f"decode {length} tokens (V=2, gamma={gamma})",
                target=target,
                draft=draft,
                prompt=(0, 1),
                gamma=gamma,
                max_new_tokens=length,
            )


def _in_context(gamma: int) -> BlockCase:
    target, draft = _models(gamma)
    scenario = BlockScenario.from_models(target, draft, prompt=(1,), gamma=gamma)
    return BlockCase(name=f"rows by context (V=2, gamma={gamma})", scenario=scenario, rows=None)


def _models(gamma: int, *, order: int = 1) -> tuple[TabularModel, TabularModel]:
    rng = np.random.default_rng([gamma, *b"models"])
    target, draft = (_law(_weights(rng, 2**order, 2)) for _ in range(2))
    shape = (2,) * (order + 1)
    return TabularModel(target.reshape(shape)), TabularModel(draft.reshape(shape))


def _plain(rng: np.random.Generator, gamma: int, vocab: int) -> _Weights:
    return _weights(rng, gamma + 1, vocab), _weights(rng, gamma, vocab)


def _zeros_in_target(rng: np.random.Generator, gamma: int, vocab: int) -> _Weights:
    target, draft = _plain(rng, gamma, vocab)
    target[np.arange(gamma + 1), np.arange(gamma + 1) % vocab] = 0
    return target, draft


def _zeros_in_draft(rng: np.random.Generator, gamma: int, vocab: int) -> _Weights:
    target, draft = _plain(rng, gamma, vocab)
    draft[np.arange(gamma), np.arange(gamma) % vocab] = 0
    return target, draft


def _disjoint(rng: np.random.Generator, gamma: int, vocab: int) -> _Weights:
    target, _ = _zeros_in_target(rng, gamma, vocab)
    return target, np.eye(vocab)[np.arange(gamma) % vocab]


def _equal(rng: np.random.Generator, gamma: int, vocab: int) -> _Weights:
    target = _weights(rng, gamma + 1, vocab)
    return target, target[:-1].copy()


_RECIPES: dict[str, Callable[[np.random.Generator, int, int], _Weights]] = {
    "plain": _plain,
    "zeros in target": _zeros_in_target,
    "zeros in draft": _zeros_in_draft,
    "disjoint": _disjoint,
    "target = draft": _equal,
}


def _weights(rng: np.random.Generator, count: int, vocab: int) -> FloatArray:
    return rng.integers(1, 10, size=(count, vocab)).astype(np.float64)


def _law(weights: FloatArray) -> FloatArray:
    law: FloatArray = weights / weights.sum(axis=-1, keepdims=True)
    return law
