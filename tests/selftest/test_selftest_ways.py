"""Each way of looking passes what is right and fails what it is there for."""

from __future__ import annotations

import numpy as np
import pytest

from specverify.bugs import CONTROLS, ZOO, Bug, Kind, Stage
from specverify.bugs.counters import count
from specverify.bugs.loops import StagedDecoder
from specverify.bugs.staged import StagedVerifier
from specverify.results import Verdict
from specverify.selftest.audits import Audit
from specverify.selftest.declared import distance_to_declare
from specverify.selftest.exactly import enumerate_member
from specverify.selftest.injection import LargestUniforms, inject
from specverify.selftest.reports import check_report
from specverify.selftest.settings import DEFAULT
from specverify.selftest.ways import ways_of


def right(kind: Kind, implementation, stage: Stage = Stage.ACCEPT) -> Bug:
    return Bug(
        name="right",
        kind=kind,
        stage=stage,
        mathematics="nothing",
        expected_check="none",
        callable=implementation,
        scene="P1",
    )


def test_injection_sees_a_closed_uniform_alone() -> None:
    found = inject(ZOO["closed_uniform"], DEFAULT, 0)
    assert found.verdict is Verdict.FAIL
    assert "outside [0, 3)" in found.note
    assert inject(right(Kind.VERIFY, StagedVerifier()), DEFAULT, 0).verdict is Verdict.PASS


def test_injected_uniforms_are_the_largest() -> None:
    generator = LargestUniforms(np.random.PCG64(0))
    assert generator.random() < 1
    assert np.float32(generator.random()) == 1
    np.testing.assert_array_equal(generator.random((2, 2)), np.full((2, 2), 1 - 2.0**-53))


def test_models_of_order_two_see_what_the_last_token_hides() -> None:
    look = Audit(gammas=(2,))
    untrimmed = look(ZOO["recurrent_state_untrimmed"], DEFAULT, 0)
    assert untrimmed.check == "token[order-2]"
    for bug in ("draft_cache_reset", "stale_draft_cache"):
        assert look(ZOO[bug], DEFAULT, 0).check.endswith("[order-2]")
    fine = look(right(Kind.DECODE, StagedDecoder()), DEFAULT, 0)
    assert fine.verdict is Verdict.PASS
    assert look in ways_of(ZOO["recurrent_state_untrimmed"])


def test_the_exact_law_sees_roundings_and_refuses_what_it_cannot_trace() -> None:
    rounded = enumerate_member(ZOO["draft_in_float16"], DEFAULT, 0)
    assert (rounded.verdict, rounded.position) == (Verdict.FAIL, 0)
    hidden = enumerate_member(ZOO["seed_ignored"], DEFAULT, 0)
    assert hidden.verdict is Verdict.INCONCLUSIVE
    assert "_HIDDEN" in hidden.note
    fine = enumerate_member(right(Kind.VERIFY, StagedVerifier()), DEFAULT, 0)
    assert fine.verdict is Verdict.PASS


def test_an_end_of_text_is_part_of_the_exact_law() -> None:
    assert enumerate_member(ZOO["past_eos"], DEFAULT, 0).verdict is Verdict.FAIL


def test_an_honest_counter_passes() -> None:
    assert check_report(right(Kind.COUNTER, count), DEFAULT, 0).verdict is Verdict.PASS
    assert check_report(ZOO["raw_logprobs"], DEFAULT, 0).check == "logprobs"


def test_the_distance_to_declare_is_the_largest_of_the_scenarios() -> None:
    assert distance_to_declare(right(Kind.VERIFY, StagedVerifier()), "default") < 1e-12
    assert 0.1 < distance_to_declare(ZOO["accept_below_target"], "default") < 1


@pytest.mark.parametrize("kind", Kind)
def test_every_kind_has_ways(kind) -> None:
    assert ways_of(right(kind, None))


def test_controls_and_bugs_of_a_kind_are_looked_at_alike() -> None:
    short, *others = ways_of(ZOO["abs_residual"])
    assert list(ways_of(CONTROLS["no_bonus"])) == others
    assert isinstance(short, Audit)
    assert ways_of(right(Kind.VERIFY, None, Stage.NUMERICS))[0] is enumerate_member
