"""The self-test: known bugs fail, controls pass, and it can itself fail."""

from __future__ import annotations

import pytest

from specverify.bugs import CONTROLS, LOSSY, ZOO, Bug, Effect, Kind
from specverify.bugs.registry import members
from specverify.errors import InvalidInputError
from specverify.selftest.run import chosen_members, selftest

ACCEPT_ALWAYS = """
PLANTED = Bug(
    name="planted",
    kind=Kind.VERIFY,
    stage=Stage.ACCEPT,
    mathematics="accept always",
    expected_check="first marginal",
    callable=StagedVerifier(accept=lambda target, draft: target * 0 + 1),
    scene="P1",
    role=Role.{role},
)
"""
RIGHT_RULE = """
PLANTED = Bug(
    name="planted",
    kind=Kind.VERIFY,
    stage=Stage.ACCEPT,
    mathematics="nothing",
    expected_check="none",
    callable=StagedVerifier(),
    scene="P1",
)
"""


def one_of_each() -> list[str]:
    """One bug of each kind and stage, the fast way to see every way of looking."""
    seen: dict[tuple[Kind, str], Bug] = {}
    for bug in ZOO.values():
        seen.setdefault((bug.kind, str(bug.stage)), bug)
    spoilt = {effect: next(b for b in ZOO.values() if b.effect is effect) for effect in _EFFECTS}
    return sorted({bug.name for bug in [*seen.values(), *spoilt.values()]})


_EFFECTS = (Effect.LAW, Effect.EFFICIENCY, Effect.COUNTS, Effect.CONTRACT)


@pytest.mark.parametrize("name", one_of_each())
def test_a_bug_is_caught(name) -> None:
    (row,) = selftest(only=name, workers=1).rows
    assert row.right, row.note
    assert row.check
    assert (row.verdict, row.calls > 0) == ("fail", True)


@pytest.mark.parametrize("name", ["closed_accept_test", "shrinking_gamma", "ensemble_weight"])
def test_what_is_right_or_declared_passes(name) -> None:
    result = selftest(only=name, workers=1)
    assert result.wrong == ()
    assert result.rows[0].verdict == "pass"


def test_a_bug_needs_one_file(plant) -> None:
    plant("fresh", ACCEPT_ALWAYS.format(role="BUG"))
    assert "planted" in members()
    result = selftest(only="plant*", workers=2)
    assert result.summary == "1 bug: 1 fail"
    assert result.rows[0].check.startswith("token[")


def test_a_right_sampler_among_the_bugs_is_named(plant) -> None:
    plant("sabotage", RIGHT_RULE)
    result = selftest(only="planted", workers=1)
    assert result.wrong == ("planted",)
    assert result.summary == "1 bug: 0 fail; wrong: planted"
    assert result.rows[0].note.startswith("not caught: ")


def test_a_biased_sampler_among_the_controls_is_named(plant) -> None:
    plant("sabotage", ACCEPT_ALWAYS.format(role="CONTROL"))
    result = selftest(only="planted", workers=1)
    assert result.summary == "1 control: 0 pass; wrong: planted"
    assert result.rows[0].check.startswith("token[")


def test_a_right_sampler_among_the_lossy_is_named(plant) -> None:
    plant("sabotage", RIGHT_RULE.replace('scene="P1"', 'scene="P1", role=Role.LOSSY'))
    result = selftest(only="planted", workers=1)
    assert result.wrong == ("planted",)
    assert "undeclared: pass" in result.rows[0].note


def test_rows_do_not_depend_on_the_workers() -> None:
    alone, together = (selftest(only="*_target", seed=3, workers=n) for n in (1, 2))
    assert alone == together
    assert len(alone.rows) > 2
    assert alone != selftest(only="*_target", seed=4, workers=1)


def test_a_member_s_row_does_not_depend_on_the_others() -> None:
    (one,) = selftest(only="resample_from_target", workers=1).rows
    assert one in selftest(only="re[js]*_*", workers=1).rows


def test_refusals() -> None:
    with pytest.raises(InvalidInputError, match="unicorn"):
        chosen_members("unicorn*")
    with pytest.raises(InvalidInputError, match="workers"):
        selftest(workers=0)
    with pytest.raises(InvalidInputError, match="seed"):
        selftest(seed=-1)


@pytest.mark.study
@pytest.mark.timeout(900)
def test_every_bug_fails_and_every_control_passes() -> None:
    result = selftest(workers=2)
    assert result.wrong == (), [row for row in result.rows if not row.right]
    assert len(result.rows) == len(ZOO) + len(CONTROLS) + len(LOSSY)
