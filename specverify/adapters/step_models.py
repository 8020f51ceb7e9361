"""Step functions seen as the models that a library calls: logits of every position of a text."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

__all__ = ["Step", "StepRows"]

Step = Callable[[Tensor], Tensor]
"""Maps the tokens so far, shape ``(t,)``, to the next token's probabilities, shape ``(vocab,)``."""


class StepRows:
    """Logits of every position of a text, each computed once.

    Args:
        step: A step function.
    """

    def __init__(self, step: Step) -> None:
        self._step = step
        self._known: dict[tuple[int, ...], Tensor] = {}

    def __call__(self, ids: Tensor) -> Tensor:
        """Logits of one text.

        Args:
            ids: The text, shape ``(1, t)``.

        Returns:
            Logarithms of the probabilities, shape ``(1, t, vocab)``.
        """
        text = tuple(ids[0].tolist())
        for end in range(1, len(text) + 1):
            if text[:end] not in self._known:
                self._known[text[:end]] = self._step(ids[0, :end]).log()
        rows = [self._known[text[:end]] for end in range(1, len(text) + 1)]
        return torch.stack(rows)[None]
