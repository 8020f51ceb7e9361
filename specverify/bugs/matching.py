"""Known bugs whose exact law is the one that was found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from specverify._arrays import FloatArray
from specverify.bugs.laws import block_law, law_distance
from specverify.bugs.registry import ZOO
from specverify.bugs.staged import StagedVerifier

__all__ = ["FoundLaw", "fitting_bugs", "stage_of"]

_EQUAL_LAWS = 1e-6


class FoundLaw(NamedTuple):
    """The law of an emitted block, on rows that depend on the position alone.

    Attributes:
        target_probs: Target rows, shape ``(gamma + 1, vocab)``.
        draft_probs: Draft rows, shape ``(gamma, vocab)``.
        law: Probability of every emitted tuple.
    """

    target_probs: FloatArray
    draft_probs: FloatArray
    law: Mapping[tuple[int, ...], float]


def fitting_bugs(found: Sequence[FoundLaw]) -> list[str]:
    """Known bugs whose law is the one found, up to the rounding of float32, in every case.

    Args:
        found: The cases; each costs an enumeration of every known bug, so keep blocks short.

    Returns:
        Names of the zoo, in its order; empty where there is no case.
    """
    verifiers = {n: b.callable for n, b in ZOO.items() if isinstance(b.callable, StagedVerifier)}
    if not found:
        return []
    return [name for name, bug in verifiers.items() if all(_same_law(bug, one) for one in found)]


def stage_of(bug: str) -> str:
    """Where in the algorithm a known bug sits."""
    return str(ZOO[bug].stage)


def _same_law(verifier: StagedVerifier, found: FoundLaw) -> bool:
    with np.errstate(all="ignore"):
        law = block_law(verifier, found.target_probs, found.draft_probs)
    return law_distance(law, found.law) <= _EQUAL_LAWS
