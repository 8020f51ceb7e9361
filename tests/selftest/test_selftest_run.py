"""The self-test: known bugs fail, controls pass, and it can itself fail."""

from __future__ import annotations

import pytest

from specverify.bugs import CONTROLS, LOSSY, ZOO
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
    """A bug of each kind, of each stage, and of each thing that a bug may spoil."""
    bugs = list(ZOO.values())[::-1]
    seen = {key: bug for bug in bugs for key in (bug.kind, bug.stage, bug.effect)}
    return sorted({bug.name for bug in seen.values()})


@pytest.mark.parametrize("name", one_of_each())
def test_a_bug_is_caught(name) -> None:
    (row,) = selftest(only=name, workers=1).rows
    assert row.right, row.note
    assert row.check
    assert (row.verdict, row.calls > 0) == ("fail", True)


@pytest.mark.parametrize("name", ["log_ratio", "shrinking_gamma", "lenience"])
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


def test_a_member_that_breaks_the_suite_costs_no_other_row(plant) -> None:
    decoder = "from specverify.bugs.loops import StagedDecoder\n" + RIGHT_RULE
    decoder = decoder.replace("VERIFY", "DECODE").replace("StagedVerifier()", "StagedDecoder()")
    plant("broken", decoder.replace('scene="P1"', 'scene="P1", role=Role.LOSSY'))
    result = selftest(only="planted", workers=1)
    assert result.wrong == ("planted",)
    assert result.rows[0].note.startswith("the suite failed: InvalidInputError")


def test_rows_depend_on_neither_workers_nor_neighbours() -> None:
    (alone,) = selftest(only="bonus_from_draft", seed=3, workers=1).rows
    together = selftest(only="bonus_[fn]*", seed=3, workers=2)
    assert [row.name for row in together.rows] == [
        "bonus_from_draft",
        "bonus_from_residual",
        "bonus_not_counted",
    ]
    assert together.rows[0] == alone
    (other,) = selftest(only="bonus_from_draft", seed=4, workers=1).rows
    assert other != alone


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
