"""Small target/draft pairs on which the zoo's laws are listed and compared exactly."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any

import numpy as np

from specverify._arrays import FloatArray
from specverify.bugs.loops import Request
from specverify.models.tabular import TabularModel

__all__ = ["SCENES", "Scene", "rows_scene"]

PROMPT = (0,)


@dataclass(frozen=True, kw_only=True)
class Scene:
    """A pair of models, a block size and a length.

    Attributes:
        name: Identifier.
        target_next: Maps a context to the target's law, shape ``(vocab,)``.
        draft_next: The same for the draft.
        gamma: Tokens drafted in a pass.
        length: Length of the completions whose law is compared.
        vocab_size: Size of the vocabulary.
        eos_token_id: Token that ends a completion, if any.
        prompt: Ids before the completion.
    """

    name: str
    target_next: Callable[[tuple[int, ...]], FloatArray]
    draft_next: Callable[[tuple[int, ...]], FloatArray]
    gamma: int
    length: int
    vocab_size: int
    eos_token_id: int | None = None
    prompt: tuple[int, ...] = PROMPT

    def request(self) -> Request:
        """The scene as a decoder is asked for it; rows are computed once."""
        return Request(
            prompt=self.prompt,
            target_next=cache(self.target_next),
            draft_next=cache(self.draft_next),
            gamma=self.gamma,
            max_new_tokens=self.length,
            eos_token_id=self.eos_token_id,
        )


def rows_scene(target_probs: FloatArray, draft_probs: FloatArray, *, name: str = "rows") -> Scene:
    """A scene whose laws depend on the position alone; completions of ``gamma + 1`` tokens.

    Args:
        target_probs: Target rows, shape ``(gamma + 1, vocab)``.
        draft_probs: Draft rows, shape ``(gamma, vocab)``.
        name: Identifier.
    """
    target = np.asarray(target_probs, dtype=np.float64)
    draft = np.asarray(draft_probs, dtype=np.float64)
    return Scene(
        name=name,
        target_next=lambda context: _at(target, context),
        draft_next=lambda context: _at(draft, context),
        gamma=len(draft),
        length=len(draft) + 1,
        vocab_size=draft.shape[1],
    )


def _at(rows: FloatArray, context: tuple[int, ...]) -> FloatArray:
    # Beyond the last row (drafts that the length cuts off) the last one is repeated.
    row: FloatArray = rows[min(len(context) - len(PROMPT), len(rows) - 1)]
    return row


def _scene(name: str, target: Any, draft: Any, **settings: Any) -> Scene:
    models = TabularModel(np.array(target)), TabularModel(np.array(draft))
    sizes = {"gamma": 2, "length": 3, "vocab_size": models[0].vocab_size} | settings
    return Scene(
        name=name, target_next=models[0].next_probs, draft_next=models[1].next_probs, **sizes
    )


_P1 = [0.5, 0.3, 0.2]
_Q1 = [0.2, 0.3, 0.5]
_M3 = np.array([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6], [0.3, 0.6, 0.1]])
_R2 = np.array([[[0.8, 0.2], [0.3, 0.7]], [[0.4, 0.6], [0.9, 0.1]]])

SCENES: Mapping[str, Scene] = MappingProxyType(
    {
        scene.name: scene
        for scene in (
            _scene("P1", _P1, _Q1),
            _scene("P2", [0.4, 0.1, 0.1, 0.4], [0.1, 0.4, 0.4, 0.1]),
            _scene("P3", [0.45, 0.15, 0.1, 0.3], [0.3, 0.05, 0.6, 0.05]),
            _scene("M3", _M3, 0.5 * _M3 + 0.5 / 3),
            # Order 2, so that a state which lost or kept a token differs; over two blocks.
            _scene("R2", _R2, 0.5 * _R2 + 0.25, length=4),
            # P1 sampled at T = 0.5.
            _scene("T05", np.array([0.25, 0.09, 0.04]) / 0.38, _Q1),
            # Two ids that a mask forbids; the draft does not know it.
            _scene("masked", [0.6, 0.4, 0.0, 0.0], [0.4, 0.2, 0.3, 0.1]),
            _scene("greedy", [0.0, 1.0, 0.0], [0.0, 1.0, 0.0]),
            _scene("eos", _P1, _Q1, length=4, eos_token_id=2),
            _scene("short", _P1, _P1, gamma=4, length=1),
            _scene("equal", _P1, _P1),
        )
    }
)
"""The fixtures of the zoo, by name: P1 to P3 are free of context, M3 is Markov."""
