"""Rounds of small libraries that draft by themselves, as decode loops over step functions.

So their own drafts are judged too. They draw from torch's global generator.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import torch
from torch import Tensor

from specverify.adapters.loading import load_module
from specverify.adapters.step_models import Step, StepRows

__all__ = ["MiniInfer", "SequentialSpeculativeDecoding"]


class MiniInfer:
    """Rounds of mini-infer's ``speculative_step`` at temperature 1, whose drafts are its own.

    Raises:
        MissingDependencyError: If mini-infer is not installed.
    """

    def __init__(self) -> None:
        self._step = load_module("mini_infer.speculative.verifier", "mini-infer").speculative_step

    def __call__(
        self, prompt: Tensor, target_step: Step, draft_step: Step, gamma: int, max_new_tokens: int
    ) -> Tensor:
        """New ids, prompt excluded."""
        target, draft = StepRows(target_step), StepRows(draft_step)
        models = (lambda ids: (target(ids), None)), (lambda ids: (draft(ids), None))

        def run(ids: Tensor) -> list[int]:
            return list(self._step(*models, ids, k_draft=gamma, temperature=1.0)[0])

        return _rounds(run, prompt, max_new_tokens)


class SequentialSpeculativeDecoding:
    """Rounds of ``standard_speculative_step`` at temperature 1, whose drafts are its own.

    Raises:
        MissingDependencyError: If sequential-speculative-decoding is not installed.
    """

    def __init__(self) -> None:
        package = "sequential-speculative-decoding"
        self._step = load_module("seqspecdecod.standard_sd", package).standard_speculative_step

    def __call__(
        self, prompt: Tensor, target_step: Step, draft_step: Step, gamma: int, max_new_tokens: int
    ) -> Tensor:
        """New ids, prompt excluded."""
        target, draft = StepRows(target_step), StepRows(draft_step)
        heat = {"draft_temperature": 1.0, "target_temperature": 1.0}

        def run(ids: Tensor) -> list[int]:
            models = [lambda x, of=of: SimpleNamespace(logits=of(x)) for of in (draft, target)]
            longer, _, _ = self._step(*models, ids, gamma=gamma, **heat)
            return list(longer[0, ids.shape[1] :].tolist())

        return _rounds(run, prompt, max_new_tokens)


def _rounds(run: Callable[[Tensor], list[int]], prompt: Tensor, length: int) -> Tensor:
    ids = prompt[None]
    while ids.shape[1] < len(prompt) + length:
        ids = torch.cat([ids, torch.tensor([run(ids)])], dim=1)
    return ids[0, len(prompt) : len(prompt) + length]
