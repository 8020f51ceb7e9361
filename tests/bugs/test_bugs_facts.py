"""What is said of each member before anything is sampled."""

from __future__ import annotations

import pytest

from specverify.bugs import CONTROLS, LOSSY, ZOO, Effect, Kind
from specverify.bugs.facts import facts
from specverify.bugs.laws import both_laws, exact_tv
from specverify.bugs.registry import members
from specverify.bugs.scenes import SCENES

BLIND = [b for b in ZOO.values() if b.effect is not Effect.LAW and b.kind is not Kind.COUNTER]


def test_everybody_is_a_member() -> None:
    assert list(members()) == [*ZOO, *CONTROLS, *LOSSY]


def test_a_bug_of_the_law() -> None:
    bug, scene = ZOO["abs_residual"], SCENES["P1"]
    known = facts(bug)
    assert known.tv == pytest.approx(exact_tv(bug, scene))
    assert known.samples == pytest.approx(both_laws(bug, scene).samples(1e-6))
    assert (known.observed, known.seen_by) == ("blocks", "law")


def test_a_batched_bug_has_the_distance_of_the_batch() -> None:
    known = facts(ZOO["shared_offset"])
    assert known.tv == pytest.approx(0.145)
    assert known.observed == "batches"


@pytest.mark.parametrize("bug", BLIND, ids=str)
def test_where_the_law_is_blind_the_check_is_named(bug) -> None:
    known = facts(bug)
    assert (known.tv, known.samples) == (0.0, None)
    assert known.seen_by == bug.expected_check


def test_a_counter_breaks_identities() -> None:
    known = facts(ZOO["untested_counted"])
    assert (known.tv, known.samples, known.seen_by) == (None, 1, "breaks: tested")


@pytest.mark.parametrize("control", CONTROLS.values(), ids=str)
def test_controls_show_nothing(control) -> None:
    assert facts(control).tv == 0.0
    assert facts(control).seen_by == ""
