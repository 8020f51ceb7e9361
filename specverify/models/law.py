"""The law that completions of a model ought to follow, position by position."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from specverify.errors import InvalidInputError
from specverify.warping import SamplingParams, warp_logits

__all__ = ["ModelLaw"]

_ROWS = 64  # bounds the memory of one forward pass, whatever the number of completions


class ModelLaw:
    """Conditional laws of given completions under a causal language model.

    Args:
        model: Maps ids of shape ``(batch, time)`` to logits ``(batch, time, vocab)``: a
            ``GPTModel`` or ``TransformersModel``, best in float64.
    """

    def __init__(self, model: Callable[[Tensor], Tensor]) -> None:
        self._model = model

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
        if not len(prompt):
            raise InvalidInputError("prompt", "needs at least one token")
        completions = torch.from_numpy(np.maximum(tokens, 0))  # padding must be an id to be read
        start = torch.tensor([int(token) for token in prompt])
        laws = [
            self._block(torch.cat([start.expand(len(rows), -1), rows], dim=1), sampling, len(start))
            for rows in torch.split(completions, _ROWS)
        ]
        return np.concatenate(laws)

    def _block(
        self, texts: Tensor, sampling: SamplingParams, prompt_length: int
    ) -> NDArray[np.float64]:
        with torch.no_grad():
            logits = self._model(texts[:, :-1])[:, prompt_length - 1 :]
            return np.asarray(warp_logits(logits.double(), sampling).cpu().numpy())
