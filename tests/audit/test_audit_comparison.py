"""Two audits side by side: a graver verdict, a lost check, fewer tokens a pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from specverify import speculative_verify
from specverify.audit.comparison import Comparison, Direction, compare
from specverify.errors import InvalidInputError
from specverify.results import AuditResult, CheckResult, Family, Verdict


def verify(
    target_probs: Any, draft_probs: Any, draft_tokens: Any, generator: np.random.Generator
) -> tuple[list[int], int]:
    emitted, accepted = speculative_verify(target_probs, draft_probs, draft_tokens, generator)
    return list(emitted), accepted


def verify_without_bonus(
    target_probs: Any, draft_probs: Any, draft_tokens: Any, generator: np.random.Generator
) -> tuple[list[int], int]:
    emitted, accepted = verify(target_probs, draft_probs, draft_tokens, generator)
    return emitted[: len(draft_tokens)], accepted


@pytest.fixture(scope="module")
def right(small_audit: Callable[..., AuditResult]) -> AuditResult:
    return small_audit(verify)


def with_verdict(result: AuditResult, name: str, verdict: Verdict) -> AuditResult:
    checks = tuple(replace(c, verdict=verdict) if c.name == name else c for c in result.checks)
    return replace(result, checks=checks)


def directions(found: Comparison, subject: str) -> list[Direction]:
    return [change.direction for change in found.changes if change.subject == subject]


def test_an_audit_equals_itself(right: AuditResult) -> None:
    found = compare(right, right)
    assert found.changes == ()
    assert found.compared == len(right.checks)


def test_another_seed_is_a_note_and_not_worse(
    right: AuditResult, small_audit: Callable[..., AuditResult]
) -> None:
    found = compare(right, small_audit(verify, seed=1))
    assert found.worse == ()
    assert directions(found, "seed") == [Direction.NOTE]


@pytest.mark.parametrize(
    ("verdict", "direction"),
    [
        (Verdict.FAIL, Direction.WORSE),
        (Verdict.ERROR, Direction.WORSE),
        (Verdict.XPASS, Direction.WORSE),
        (Verdict.INCONCLUSIVE, Direction.WORSE),
        (Verdict.XFAIL, Direction.NOTE),
    ],
)
def test_a_graver_verdict_is_worse(
    right: AuditResult, verdict: Verdict, direction: Direction
) -> None:
    later = with_verdict(right, "token[markov]", verdict)
    assert directions(compare(right, later), "token[markov]") == [direction]
    if direction is Direction.WORSE:
        assert directions(compare(later, right), "token[markov]") == [Direction.BETTER]


def test_a_check_that_is_gone_is_worse(right: AuditResult) -> None:
    later = replace(right, checks=right.checks[1:])
    assert [change.subject for change in compare(right, later).worse] == [right.checks[0].name]
    assert compare(later, right).worse == ()


def test_a_new_failing_check_is_worse(right: AuditResult) -> None:
    new = CheckResult(name="token[new]", family=Family.LAW, verdict=Verdict.FAIL)
    later = replace(right, checks=(*right.checks, new))
    assert [change.subject for change in compare(right, later).worse] == ["token[new]"]


def test_fewer_tokens_a_pass_are_worse(
    right: AuditResult, small_audit: Callable[..., AuditResult]
) -> None:
    slower = small_audit(verify_without_bonus)
    assert directions(compare(right, slower), "tokens/pass[markov]") == [Direction.WORSE]
    assert directions(compare(slower, right), "tokens/pass[markov]") == [Direction.BETTER]


def test_what_was_not_reached_is_not_compared(right: AuditResult) -> None:
    unreached = {name: row | {"tokens_per_pass": 0.0} for name, row in right.acceptance.items()}
    assert compare(right, replace(right, acceptance=unreached)).changes == ()


def test_mistakes_are_named(right: AuditResult) -> None:
    with pytest.raises(InvalidInputError, match="no check of the old audit"):
        compare(right, replace(right, checks=()))
    with pytest.raises(InvalidInputError, match=r"level: must lie in \(0, 1\), got 2"):
        compare(right, right, level=2)
