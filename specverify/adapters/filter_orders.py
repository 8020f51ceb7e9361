"""Laws of models whose engine applies temperature and filters in an order of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specverify.models.law import ModelLaw
from specverify.warping import SamplingParams, warp_probs

__all__ = ["OrderedLaw"]


class OrderedLaw:
    """Conditional laws of a model under settings that are applied one after the other.

    Args:
        model: Maps ids of shape ``(batch, time)`` to logits ``(batch, time, vocab)``.
        order: Fields of :class:`~specverify.warping.SamplingParams` in the engine's order; each
            sees the law that the one before left, made to sum to one.
    """

    def __init__(self, model: Any, order: Sequence[str]) -> None:
        self._law, self._order = ModelLaw(model), tuple(order)

    def probs(
        self, prompt: Sequence[int], tokens: NDArray[np.int64], sampling: SamplingParams
    ) -> NDArray[np.float64]:
        """Law of each position of each completion given what stands before it.

        Args:
            prompt: Ids, at least one.
            tokens: Completions, shape ``(n, length)``, padded with -1 after an end.
            sampling: Temperature and filters.

        Returns:
            Probabilities, shape ``(n, length, vocab)``; rows after an end mean nothing.

        Raises:
            InvalidInputError: If the prompt is empty.
        """
        probs = self._law.probs(prompt, tokens, SamplingParams())
        for name in self._order:
            probs = warp_probs(probs, SamplingParams(**{name: getattr(sampling, name)}))
        return probs
