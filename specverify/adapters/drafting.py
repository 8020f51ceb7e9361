"""The laws that engines draw their drafts from, where they are not the request's own."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from specverify.errors import InvalidInputError
from specverify.models.law import ModelLaw
from specverify.warping import SamplingParams, warp_probs

__all__ = ["DRAFTING", "draft_law", "warped_draft"]

DRAFTING = ("greedy", "ten-best", "as-target")
"""The most probable token; one of the ten most probable, at the request's temperature and without
its filters; the request's law."""

_TEN_BEST = 10


def draft_law(
    law: ModelLaw,
    drafting: str,
    completions: tuple[Sequence[int], NDArray[np.int64]],
    sampling: SamplingParams,
) -> NDArray[np.float64]:
    """The law of each draft along given completions.

    Args:
        law: The draft model's conditional laws.
        drafting: One of :data:`DRAFTING`.
        completions: Prompt, and completions of shape ``(n, length)``, padded with -1.
        sampling: The request's temperature and filters.

    Returns:
        Probabilities, shape ``(n, length, vocab)``.

    Raises:
        InvalidInputError: If there is no such way of drafting.
    """
    if drafting not in DRAFTING:
        known = ", ".join(DRAFTING)
        raise InvalidInputError("drafting", f"must be one of {known}; got {drafting!r}")
    if drafting == "as-target":
        return law.probs(*completions, sampling)
    return warped_draft(law.probs(*completions, SamplingParams()), drafting, sampling)


def warped_draft(
    probs: NDArray[np.float64], drafting: str, sampling: SamplingParams
) -> NDArray[np.float64]:
    """What ``greedy`` or ``ten-best`` makes of a draft's laws at temperature 1, of any shape."""
    if drafting == "greedy":
        return warp_probs(probs, SamplingParams(temperature=0.0))
    return warp_probs(probs, SamplingParams(temperature=sampling.temperature, top_k=_TEN_BEST))
