"""What could explain the number of passes an engine takes: its scheme, and its draft's real law."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from specverify.audit.passes import kept_chances, pass_moments
from specverify.audit.schemes import SCHEMES, STANDARD, Scheme
from specverify.warping import SamplingParams, warp_probs

__all__ = ["AS_TOLD", "EXPLANATIONS", "Explanation", "draft_variants", "expected_passes"]

AS_TOLD, TWICE, UNFILTERED, NOTHING = "as-told", "twice", "unfiltered", "nothing"


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """A lossless scheme with one reading of the law that the drafts are drawn from.

    Attributes:
        code: Identifier of the finding.
        text: What to tell people.
        scheme: How drafts are verified.
        draft: Key of the draft's law in :func:`draft_variants`.
    """

    code: str
    text: str
    scheme: Scheme
    draft: str = AS_TOLD


EXPLANATIONS = (
    *(Explanation(code=scheme.code, text=scheme.text, scheme=scheme) for scheme in SCHEMES),
    Explanation(
        code="draft-filtered-twice",
        text="temperature and filters seem to be applied twice to the draft: the law stays exact, "
        "fewer drafts are accepted",
        scheme=STANDARD,
        draft=TWICE,
    ),
    Explanation(
        code="draft-unfiltered",
        text="temperature and filters seem not to be applied to the draft: the law stays exact, "
        "fewer drafts are accepted",
        scheme=STANDARD,
        draft=UNFILTERED,
    ),
    Explanation(
        code="no-speculation",
        text="every pass emits one token: speculation seems to be off, or accepts no draft",
        scheme=STANDARD,
        draft=NOTHING,
    ),
)
"""The standard rule with the draft's law as told comes first."""


def draft_variants(
    told: NDArray[np.float64], plain: NDArray[np.float64], sampling: SamplingParams
) -> dict[str, NDArray[np.float64]]:
    """Laws that the drafts may really be drawn from.

    Args:
        told: Draft's law under ``sampling``, shape ``(n, length, vocab)``.
        plain: Draft's law at temperature 1 without filters, same shape.
        sampling: Temperature and filters.
    """
    # At temperature 0 and without filters a second application changes nothing.
    nothing = np.broadcast_to(0.0, told.shape)
    twice = warp_probs(told, sampling)
    return {AS_TOLD: told, TWICE: twice, UNFILTERED: plain, NOTHING: nothing}


def expected_passes(
    tokens: NDArray[np.int64],
    target: NDArray[np.float64],
    drafts: Mapping[str, NDArray[np.float64]],
    gamma: int,
    *,
    prefill_emits: bool = False,
) -> Iterator[tuple[float, float]]:
    """Mean and variance of the passes that each explanation expects of these very texts.

    Args:
        tokens: Completions, shape ``(n, length)``, padded with -1.
        target: Target's conditional laws, shape ``(n, length, vocab)``.
        drafts: The draft's, by variant.
        gamma: Drafted tokens in a pass.
        prefill_emits: Whether the first token comes from the prompt's pass, without drafts.
    """
    drawn = tokens >= 0
    ids = np.maximum(tokens, 0)[..., None]
    kept_target = np.take_along_axis(target, ids, axis=-1)[..., 0]
    for explanation in EXPLANATIONS:
        kept_draft = np.take_along_axis(drafts[explanation.draft], ids, axis=-1)[..., 0]
        chances = kept_chances(kept_target, kept_draft, matching=explanation.scheme.matching)
        if prefill_emits:
            chances[:, 0] = 0.0  # no draft stood there: its pass ends with it
        moments = [
            pass_moments(chances[row][drawn[row]], gamma, bonus=explanation.scheme.bonus)
            for row in range(len(tokens))
        ]
        mean, variance = np.sum(moments, axis=0)
        yield float(mean), float(variance)
