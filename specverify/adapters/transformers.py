"""The verification function of Hugging Face transformers.

It draws from torch's global generator.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from specverify.adapters.transformers_calls import library
from specverify.errors import MissingDependencyError

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["speculative_sampling"]


def speculative_sampling(
    target_probs: Tensor, draft_probs: Tensor, draft_tokens: Tensor
) -> tuple[Tensor, int]:
    """One block through ``transformers.generation.utils._speculative_sampling``.

    It takes logits: the logarithms of the probabilities are handed over. It draws from torch's
    global generator.

    Args:
        target_probs: Target rows, shape ``(gamma + 1, vocab)``.
        draft_probs: Draft rows, shape ``(gamma, vocab)``.
        draft_tokens: Drafted ids, shape ``(gamma,)``.

    Returns:
        Emitted ids and the number of accepted drafts.

    Raises:
        MissingDependencyError: If transformers is not installed.
    """
    function = _speculative_sampling()
    arguments = {
        "candidate_input_ids": draft_tokens.unsqueeze(0),
        "candidate_logits": draft_probs.log().unsqueeze(0),
        "candidate_length": len(draft_tokens),
        "new_logits": target_probs.log().unsqueeze(0),
    }
    if "is_done_candidate" in inspect.signature(function).parameters:  # before 5.24
        arguments["is_done_candidate"] = False
    emitted, n_accepted = function(**arguments)
    return emitted[0], int(n_accepted)


def _speculative_sampling() -> Callable[..., Any]:
    library()
    from transformers.generation import utils

    function: Callable[..., Any] = utils._speculative_sampling
    return function


# The library takes seconds to import: that is a part of loading the target, not of its first call.
with suppress(MissingDependencyError):
    _speculative_sampling()
