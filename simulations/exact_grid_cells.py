"""Small scenarios of every kind that breaks samplers: zeros, ties, points, equal and disjoint rows.

Rows differ by position for blocks, and by context for loops.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from specverify._arrays import FloatArray
from specverify.audit import rows as recipes
from specverify.bugs.scenes import Scene, rows_scene
from specverify.exact.scenario import BlockScenario
from specverify.models.tabular import TabularModel


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One scenario: laws by position for blocks, and by context for loops.

    Attributes:
        name: Recipe, vocabulary and gamma.
        target: Target rows, shape ``(gamma + 1, vocab)``.
        draft: Draft rows, shape ``(gamma, vocab)``.
        models: A target and a draft of order 2, so that a lost token shows.
        length: Tokens of a traced completion.
        eos: Token that ends a completion, in the cells of odd gamma and three tokens or more.
    """

    name: str
    target: FloatArray
    draft: FloatArray
    models: tuple[TabularModel, TabularModel]
    length: int
    eos: int | None

    @property
    def gamma(self) -> int:
        """Drafts in a block."""
        return len(self.draft)

    @property
    def block(self) -> BlockScenario:
        """The cell for a block verifier."""
        return BlockScenario.from_rows(self.target, self.draft)

    @property
    def scene(self) -> Scene:
        """The cell for the zoo's loops."""
        target, draft = self.models
        return replace(
            rows_scene(self.target, self.draft),
            target_next=target.next_probs,
            draft_next=draft.next_probs,
            length=self.length,
            eos_token_id=self.eos,
        )


def ties(vocab: int) -> recipes.Recipe:
    """Weights 1 and 2 alone, so that ratios of 1 and equal weights abound."""

    def rows(rng: np.random.Generator, positions: int) -> tuple[Any, Any]:
        weights = rng.integers(1, 3, size=(2, positions, 1, vocab)).astype(float)
        target, draft = weights / weights.sum(axis=-1, keepdims=True)
        return target, draft

    return rows


def one_hot_draft(vocab: int) -> recipes.Recipe:
    """A greedy draft, which moves with the position."""

    def rows(rng: np.random.Generator, positions: int) -> tuple[Any, Any]:
        draft, target = recipes.one_hot_target(vocab)(rng, positions)
        return target, draft

    return rows


RECIPES: Mapping[str, Callable[[int], recipes.Recipe]] = {
    "mixed": recipes.mixed,
    "zeros in the target": lambda vocab: recipes.zeros_in_target(vocab, vocab // 2),
    "zeros in the draft": lambda vocab: recipes.zeros_in_draft(vocab, vocab // 2),
    "ties": ties,
    "one-hot target": recipes.one_hot_target,
    "one-hot draft": one_hot_draft,
    "disjoint": recipes.disjoint,
    "near-equal": lambda vocab: recipes.near_ties(vocab, 1e-9),
    "equal": recipes.same,
}


def cell(name: str, vocab: int, gamma: int, *, loop_paths: int) -> Cell:
    """The scenario of one recipe and size; rows differ by position (and by context)."""
    recipe = RECIPES[name](vocab)
    rng = np.random.default_rng([list(RECIPES).index(name), vocab, gamma])
    target, draft = (rows[:, 0] for rows in recipe(rng, gamma + 1))
    by_context = (TabularModel(rows.reshape(vocab, vocab, vocab)) for rows in recipe(rng, vocab**2))
    return Cell(
        name=f"{name}, V = {vocab}, gamma = {gamma}",
        target=target,
        draft=draft[:gamma],
        models=(next(by_context), next(by_context)),
        length=affordable(vocab ** (gamma + 1), gamma + 2, loop_paths),
        eos=vocab - 1 if gamma % 2 and vocab > 2 else None,
    )


def affordable(blocks: int, longest: int, paths: int) -> int:
    """Tokens of a loop that take about ``paths`` paths, each block taking one and a half."""
    length, needed = 1, 1.5 * blocks
    while length < longest and (needed := 1.5 * blocks + 0.5 * blocks * needed) <= paths:
        length += 1
    return length
