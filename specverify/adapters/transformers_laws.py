"""Our own laws of what transformers samples, in float64: nothing that it computed itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from specverify.errors import InvalidInputError
from specverify.warping import SamplingParams, warp_logits

__all__ = ["GuidedLaw", "Model", "TranslatedLaw"]

Model: TypeAlias = Callable[[Tensor], Tensor]
"""Maps ids of shape ``(batch, time)`` to logits ``(batch, time, vocab)``."""


class GuidedLaw:
    """Conditional laws under guidance and a repetition penalty, applied before the filters.

    Guidance takes the last token of the prompt and what was generated since as the unconditional
    text, as plain ``generate`` does without negative prompt; the penalty counts the prompt, too.

    Args:
        model: The model, best in float64.
        guidance: Guidance scale; 1 changes nothing.
        penalty: Repetition penalty, above 0; 1 changes nothing.
        filters: Fields of ``SamplingParams`` that take the place of a request's.
    """

    def __init__(
        self, model: Model, *, guidance: float, penalty: float, filters: Mapping[str, Any]
    ) -> None:
        self._model, self._guidance, self._penalty = model, guidance, penalty
        self._filters = filters

    def probs(
        self, prompt: Sequence[int], tokens: NDArray[np.int64], sampling: SamplingParams
    ) -> NDArray[np.float64]:
        """Laws along completions, with arguments and shape of ``TargetLaw.probs``."""
        texts, start = _texts(prompt, tokens), len(prompt)
        with torch.no_grad():
            logits = self._model(texts[:, :-1])[:, start - 1 :].double()
            if self._guidance != 1:
                alone = self._model(texts[:, start - 1 : -1]).double().log_softmax(-1)
                logits = alone + self._guidance * (logits.log_softmax(-1) - alone)
        if self._penalty != 1:
            logits = self._penalised(texts, logits, start)
        return np.asarray(warp_logits(logits, replace(sampling, **self._filters)).numpy())

    def _penalised(self, texts: Tensor, logits: Tensor, start: int) -> Tensor:
        """Positive scores of tokens that occurred are divided, negative ones multiplied."""
        occurred = torch.nn.functional.one_hot(texts, logits.shape[-1]).cumsum(1) > 0
        less = torch.where(logits > 0, logits / self._penalty, logits * self._penalty)
        return torch.where(occurred[:, start - 1 : -1], less, logits)


class TranslatedLaw:
    """The law of drafts by a model with another vocabulary: of those tokens that both have.

    Args:
        model: The draft in its own vocabulary.
        ids: Its id of each of the target's tokens, -1 where it has none.
        unknown: Its id that stands for such a token in a text.
    """

    def __init__(self, model: Model, ids: Sequence[int], unknown: int) -> None:
        self._model, self._ids, self._unknown = model, torch.tensor(ids), unknown

    def probs(
        self, prompt: Sequence[int], tokens: NDArray[np.int64], sampling: SamplingParams
    ) -> NDArray[np.float64]:
        """Laws along completions, with arguments and shape of ``TargetLaw.probs``."""
        texts = self._ids[_texts(prompt, tokens)]
        texts = torch.where(texts < 0, self._unknown, texts)
        with torch.no_grad():
            logits = self._model(texts[:, :-1])[:, len(prompt) - 1 :].double()
        common = torch.where(self._ids < 0, -torch.inf, logits[..., self._ids.clamp(min=0)])
        return np.asarray(warp_logits(common, sampling).numpy())


def _texts(prompt: Sequence[int], tokens: NDArray[np.int64]) -> Tensor:
    """Prompts with completions; padding must be an id to be read."""
    if not len(prompt):
        raise InvalidInputError("prompt", "needs at least one token")
    completions = torch.from_numpy(np.maximum(tokens, 0))
    start = torch.tensor([int(token) for token in prompt])
    return torch.cat([start.expand(len(completions), -1), completions], dim=1)
