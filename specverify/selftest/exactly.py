"""The exact law as a way of looking: what no sample of a sensible size could tell."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from specverify._arrays import FloatArray
from specverify.bugs import Bug, Kind
from specverify.bugs.loops import NextProbs
from specverify.bugs.scenes import PROMPT, SCENES, Scene
from specverify.errors import UnsupportedRandomness
from specverify.exact.blocks import ExactCheck, check_exact
from specverify.exact.decoding import check_exact_decode
from specverify.exact.scenario import BlockScenario
from specverify.results import Verdict
from specverify.selftest.outcome import Sighting
from specverify.selftest.settings import Settings

__all__ = ["check_scene", "enumerate_member"]


def enumerate_member(bug: Bug, _settings: Settings, _seed: int) -> Sighting:
    """The exact law of a block, or of a whole completion, on the member's own scene."""
    try:
        found = check_scene(bug, SCENES[bug.scene])
    except UnsupportedRandomness as refusal:
        return Sighting(verdict=Verdict.INCONCLUSIVE, way="exact", note=str(refusal))
    verdicts = {True: Verdict.PASS, False: Verdict.FAIL, None: Verdict.INCONCLUSIVE}
    return Sighting(
        verdict=verdicts[found.lossless],
        way="exact",
        check=f"exact[{bug.scene}]",
        position=found.position,
        calls=found.law.paths,
    )


def check_scene(bug: Bug, scene: Scene) -> ExactCheck:
    """Enumerate a verifier or a decode loop on a scene.

    Args:
        bug: The member.
        scene: Its models.

    Raises:
        UnsupportedRandomness: If its draws cannot be traced.
    """
    if bug.kind is Kind.VERIFY:
        block = BlockScenario(
            gamma=scene.gamma,
            vocab_size=scene.vocab_size,
            target=lambda prefix: scene.target_next(PROMPT + prefix),
            draft=lambda prefix: scene.draft_next(PROMPT + prefix),
        )
        return check_exact(bug.callable, block, framework="numpy")
    request = scene.request()
    return check_exact_decode(
        partial(bug.callable, eos_token_id=scene.eos_token_id),
        _Model(scene, request.target_next),
        _Model(scene, request.draft_next),
        prompt=PROMPT,
        gamma=scene.gamma,
        max_new_tokens=scene.length,
        eos_token_id=scene.eos_token_id,
        framework="numpy",
    )


@dataclass(frozen=True, eq=False)
class _Model:
    """One side of a scene as a model."""

    scene: Scene
    law: NextProbs

    @property
    def vocab_size(self) -> int:
        return self.scene.vocab_size

    @property
    def order(self) -> int:
        return self.scene.length + self.scene.gamma

    def next_probs(self, context: tuple[int, ...]) -> FloatArray:
        return self.law(tuple(int(token) for token in context))
