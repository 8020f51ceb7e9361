"""From a causal language model to the step function that decoders take."""

from __future__ import annotations

from typing import Any

import torch

from specverify.models.tabular import StepFunction
from specverify.warping import SamplingParams, warp_logits

__all__ = ["model_step"]


def model_step(model: Any, *, sampling: SamplingParams | None = None) -> StepFunction:
    """Step function of a causal language model; the whole context is evaluated at each call.

    Args:
        model: Maps ids of shape ``(1, time)`` to logits of shape ``(1, time, vocab)``, or to an
            object whose ``logits`` they are: a ``GPTModel`` or any causal model of transformers.
        sampling: Temperature and filters; the model's own law by default.

    Returns:
        Function from the tokens so far, 1-D and at least one, to the law of the next, shape
        ``(vocab,)``, in the model's dtype but at least float32.
    """
    params = sampling or SamplingParams()

    def step(context: Any) -> torch.Tensor:
        ids = torch.as_tensor(context, dtype=torch.int64)
        with torch.no_grad():
            output = model(ids.unsqueeze(0))
        logits: torch.Tensor = getattr(output, "logits", output)[0, -1]
        return warp_logits(logits if logits.dtype == torch.float64 else logits.float(), params)

    return step
