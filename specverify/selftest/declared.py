"""Lossy members: how far they are off where they are audited, to be declared."""

from __future__ import annotations

from dataclasses import replace

from specverify.audit.forms import Form
from specverify.audit.scenarios import Scenario, scenarios
from specverify.bugs import Bug, Kind
from specverify.bugs.laws import exact_tv
from specverify.bugs.loops import StagedDecoder
from specverify.bugs.scenes import PROMPT, Scene
from specverify.bugs.staged import StagedVerifier
from specverify.errors import InvalidInputError

__all__ = ["GAMMAS", "distance_to_declare"]

GAMMAS = (3,)
"""Block sizes of the scenarios in which they are audited: few enough to enumerate them all."""


def distance_to_declare(bug: Bug, suite: str) -> float:
    """Largest exact total variation of a member's completions over the scenarios of the audit.

    Blocks follow each other until the completion is full, as the audit calls them.

    Args:
        bug: A block verifier.
        suite: ``default`` or ``thorough``.

    Raises:
        InvalidInputError: If the member is no block verifier.
    """
    if not isinstance(bug.callable, StagedVerifier):
        raise InvalidInputError("bug", f"{bug.name} is lossy and no block verifier")
    chosen = [s for s in scenarios(Form.VERIFY, suite) if s.gamma in GAMMAS and s.vocab_size < 10]
    loop = replace(bug, kind=Kind.DECODE, callable=StagedDecoder(verifier=bug.callable))
    return max(exact_tv(loop, _as_scene(scenario)) for scenario in chosen)


def _as_scene(scenario: Scenario) -> Scene:
    chain, before = scenario.chain, len(PROMPT)
    return Scene(
        name=scenario.name,
        target_next=lambda text: chain.target[len(text) - before, chain.context(text[before:])],
        draft_next=lambda text: chain.draft[len(text) - before, chain.context(text[before:])],
        gamma=scenario.gamma,
        length=scenario.length,
        vocab_size=scenario.vocab_size,
    )
