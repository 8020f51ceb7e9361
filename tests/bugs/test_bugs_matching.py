"""Loops named by their exact law: known ones by themselves, a right one by no bug of the law."""

from __future__ import annotations

from dataclasses import replace

import pytest

from specverify.bugs import ZOO
from specverify.bugs.laws import emitted_law, exact_tv, target_law
from specverify.bugs.loops import StagedDecoder
from specverify.bugs.matching import fitting_loops
from specverify.bugs.scenes import SCENES, Scene

SCENE = replace(SCENES["R2"], length=3, prompt=(1, 0))
LOOPS = [name for name, bug in ZOO.items() if isinstance(bug.callable, StagedDecoder)]


@pytest.mark.parametrize("name", LOOPS)
def test_a_known_loop_fits_itself(name: str) -> None:
    assert name in fitting_loops(SCENE, emitted_law(ZOO[name], SCENE))


def test_a_lost_first_token_is_told_from_every_other() -> None:
    found = fitting_loops(SCENE, emitted_law(ZOO["first_token_lost"], SCENE))
    assert found == ["first_token_lost"]


def test_a_right_law_fits_what_changes_no_law_here() -> None:
    fitting = fitting_loops(SCENE, target_law(ZOO["first_token_lost"], SCENE))
    assert "first_token_lost" not in fitting
    assert "resample_from_target" not in fitting
    same = [name for name in LOOPS if exact_tv(ZOO[name], SCENE) < 1e-9]
    assert set(same) <= set(fitting)


def test_verifiers_are_compared_inside_a_right_loop() -> None:
    bug = ZOO["resample_from_target"]
    loop = replace(bug, callable=StagedDecoder(verifier=bug.callable))
    assert bug.name in fitting_loops(SCENE, emitted_law(loop, SCENE))


def test_the_prompt_of_a_scene_is_handed_over() -> None:
    other: Scene = replace(SCENE, prompt=(0, 1))
    first, second = (emitted_law(ZOO["first_token_lost"], scene) for scene in (SCENE, other))
    assert first != second
