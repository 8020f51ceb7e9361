"""``result.json``: its schema is the shipped one, and real results keep to it."""

from __future__ import annotations

import json

import jsonschema
import msgspec
import pytest

from specverify.audit.config import AuditConfig, Budget
from specverify.audit.progress import Progress
from specverify.audit.schema import make_schema, shipped_schema
from specverify.audit.verdicts import exit_code
from specverify.bugs import ZOO
from specverify.errors import InvalidInputError
from specverify.results import AuditResult, RunStatus, Verdict
from specverify.sampler.verify import speculative_verify


def test_the_shipped_schema_is_that_of_the_types() -> None:
    assert shipped_schema() == make_schema()


@pytest.mark.parametrize(
    "target", [speculative_verify, ZOO["abs_residual"].callable, lambda p, q, x, generator: []]
)
def test_a_real_result_keeps_to_it(small_audit, target) -> None:
    result = small_audit(target, framework="numpy", form="verify", gammas=(3,))
    written = json.loads(msgspec.json.encode(result))
    jsonschema.validate(written, shipped_schema())
    assert msgspec.json.decode(msgspec.json.encode(result), type=AuditResult).checks
    broken = written | {"verdict": "perhaps"}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(broken, shipped_schema())


def test_the_error_budget_adds_up(small_audit) -> None:
    result = small_audit(speculative_verify, framework="numpy", gammas=(3,))
    budget = result.error_budget
    looked = budget["level_per_law_test"] * budget["law_tests"]
    assert looked + budget["level_per_law_bet"] * budget["law_bets"] == pytest.approx(1e-6)
    for check in result.checks:
        if check.p_value is not None:
            assert check.p_adjusted >= check.p_value


def test_expected_failures(small_audit) -> None:
    bug = ZOO["resample_from_target"].callable
    reasons = {"token": "known", "joint[*]": "known too"}
    declared = small_audit(bug, expected_failures=reasons, gammas=(2,))
    verdicts = {check.verdict for check in declared.checks if check.name.startswith("token[")}
    assert Verdict.XFAIL in verdicts
    right = small_audit(
        speculative_verify, framework="numpy", gammas=(3,), expected_failures={"token": "no more"}
    )
    assert right.verdict is Verdict.XPASS
    assert exit_code(right) == 4


def test_a_budget_ends_the_sampling(small_audit) -> None:
    spent = small_audit(speculative_verify, framework="numpy", budget=Budget(calls=500))
    assert spent.verdict is Verdict.INCONCLUSIVE
    assert exit_code(spent) == 3
    assert spent.timing["stopped"] == "budget"
    assert 500 <= spent.timing["calls"] < 3000


def test_only_the_checks_asked_for(small_audit) -> None:
    result = small_audit(speculative_verify, framework="numpy", gammas=(3,), checks=("token[m*]",))
    assert [check.name for check in result.checks] == ["token[markov]"]


def test_an_interruption_keeps_what_was_sampled(small_audit) -> None:
    from specverify.audit.run import audit

    def interrupt(event: Progress) -> None:
        if event.stage == "sample" and event.done >= 1000:
            raise KeyboardInterrupt

    config = AuditConfig(framework="numpy", gammas=(3,), isolation="inline", mode="statistical")
    result = audit(speculative_verify, config=config, progress=interrupt)
    assert result.status is RunStatus.INTERRUPTED
    assert exit_code(result) == 130
    assert sum(check.n for check in result.checks if check.name.startswith("token[")) >= 4000


@pytest.mark.parametrize(
    ("settings", "argument"),
    [
        ({"tv": 0}, "tv"),
        ({"false_alarm": 1.5}, "false_alarm"),
        ({"declare": "lossy"}, "declare"),
        ({"declare": "lossy:2"}, "declare"),
        ({"expect": "speed"}, "expect"),
        ({"workers": 0}, "workers"),
        ({"time_limit": 0}, "time_limit"),
        ({"memory_limit": 0}, "memory_limit"),
        ({"gammas": (0,)}, "gammas"),
        ({"form": "guess"}, "form"),
        ({"isolation": "none"}, "isolation"),
    ],
)
def test_refuses_settings_out_of_range(settings, argument) -> None:
    with pytest.raises(InvalidInputError, match=f"^{argument}: "):
        AuditConfig(**settings)


def test_refuses_what_does_not_fit_together(small_audit) -> None:
    with pytest.raises(InvalidInputError, match="gammas: no scenario has blocks of 99;"):
        small_audit(speculative_verify, gammas=(99,))
    with pytest.raises(InvalidInputError, match="isolation"):
        small_audit(speculative_verify, isolation="process")
    with pytest.raises(InvalidInputError, match="seed"):
        small_audit(speculative_verify, seed=-1)


def test_budgets_by_hand() -> None:
    assert Budget.parse("60s") == Budget(seconds=60.0)
    assert Budget.parse("2m") == Budget(seconds=120.0)
    assert Budget.parse("200k") == Budget(calls=200_000)
    assert Budget.parse("1.5M") == Budget(calls=1_500_000)
    for text in ("", "0", "soon", "-3", "3h"):
        with pytest.raises(InvalidInputError, match="budget"):
            Budget.parse(text)
