"""What the target and its drafts learn from: text, and the target's own distributions."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn import functional

from specverify.distributions import acceptance_rate
from specverify.models.gpt import GPTModel
from specverify.models.trainer import LossFunction

__all__ = ["distillation", "likelihood"]

_DIVERGENCE_SHARE = 0.5


def likelihood(model: GPTModel) -> LossFunction:
    """Cross entropy of the text, in nats a token, as the loss of ``target``."""

    def loss(_: float, windows: Tensor) -> Mapping[str, Tensor]:
        logits = model(windows[:, :-1]).flatten(0, 1)
        return {"target": functional.cross_entropy(logits, windows[:, 1:].flatten())}

    return loss


def distillation(target: GPTModel, drafts: Mapping[str, GPTModel]) -> LossFunction:
    """Loss of drafts: first the divergence from the target, then what speculation pays for.

    The first half of training minimises ``KL(target || draft)``, which has useful gradients far
    from the target; the second half ``1 - sum min(target, draft)``, exactly the probability that a
    drafted token is rejected.

    Args:
        target: The teacher; not changed.
        drafts: Students by name.

    Returns:
        Loss function; the target is evaluated once for all drafts.

    References:
        Zhou et al. (2024), "DistillSpec", arXiv:2310.08461, section 4 (the total variation loss).
    """

    def loss(share: float, windows: Tensor) -> Mapping[str, Tensor]:
        with torch.no_grad():
            logits = target(windows)
            target_probs, log_target = logits.softmax(-1), logits.log_softmax(-1)

        def one(draft: GPTModel) -> Tensor:
            log_draft: Tensor = draft(windows).log_softmax(-1)
            if share < _DIVERGENCE_SHARE:
                value: Tensor = (target_probs * (log_target - log_draft)).sum(-1).mean()
            else:
                value = 1 - acceptance_rate(target_probs, log_draft.exp()).mean()
            return value

        return {name: one(draft) for name, draft in drafts.items()}

    return loss
