"""Known bugs whose exact law is the one that was found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from specverify._arrays import FloatArray
from specverify.bugs.base import Bug
from specverify.bugs.laws import block_law, emitted_law, law_distance
from specverify.bugs.loops import StagedDecoder
from specverify.bugs.registry import ZOO
from specverify.bugs.scenes import Scene
from specverify.bugs.staged import StagedVerifier

__all__ = ["FoundLaw", "fitting_bugs", "fitting_loops", "stage_of"]

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


def fitting_loops(scene: Scene, law: Mapping[tuple[int, ...], float]) -> list[str]:
    """Known bugs of loops, and of verifiers inside a right loop, whose completions have this law.

    Args:
        scene: The models, the block size and the length that was asked for; each known bug is
            enumerated on it, so keep it small.
        law: Probability of every completion.

    Returns:
        Names of the zoo, in its order.
    """
    loops = ((name, _as_loop(bug)) for name, bug in ZOO.items())
    return [n for n, loop in loops if loop is not None and _same_completions(loop, scene, law)]


def _as_loop(bug: Bug) -> Bug | None:
    if isinstance(bug.callable, StagedDecoder):
        return bug
    if isinstance(bug.callable, StagedVerifier):
        return replace(bug, callable=StagedDecoder(verifier=bug.callable))
    return None


def _same_completions(loop: Bug, scene: Scene, law: Mapping[tuple[int, ...], float]) -> bool:
    with np.errstate(all="ignore"):
        return law_distance(emitted_law(loop, scene), law) <= _EQUAL_LAWS


def stage_of(bug: str) -> str:
    """Where in the algorithm a known bug sits."""
    return str(ZOO[bug].stage)


def _same_law(verifier: StagedVerifier, found: FoundLaw) -> bool:
    with np.errstate(all="ignore"):
        law = block_law(verifier, found.target_probs, found.draft_probs)
    return law_distance(law, found.law) <= _EQUAL_LAWS
