"""Recorded checks, run again: equal where nothing changed, and what changed where it did."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from specverify.audit.config import AuditConfig, Budget
from specverify.audit.replay import choose_checks, replay
from specverify.audit.run import audit
from specverify.errors import InvalidInputError, UnknownTargetError
from specverify.results import AuditResult, CheckResult, Verdict
from specverify.sampler.verify import speculative_verify

PLANTED = Path(__file__).resolve().parent.parent / "planted" / "biased_numpy.py"
RAISING = """
import numpy as np
from specverify.sampler.verify import speculative_verify

def verify(target_probs, draft_probs, draft_tokens, generator: np.random.Generator):
    if generator.random() < 2e-4:
        raise RuntimeError("out of luck")
    return speculative_verify(target_probs, draft_probs, draft_tokens, generator)
"""


def recorded(target: Any, seed: int = 0, **settings: Any) -> AuditResult:
    """An audit as its file gives it back."""
    settings = {"mode": "statistical", "gammas": (3,), "tv": 0.1, "isolation": "inline"} | settings
    result = audit(target, config=AuditConfig(**settings), seed=seed)
    return msgspec.json.decode(msgspec.json.encode(result), type=AuditResult)


@pytest.fixture(scope="module")
def failed() -> AuditResult:
    return recorded(f"{PLANTED}:resample_from_target")


def test_what_failed_fails_again_in_every_number(failed: AuditResult) -> None:
    checks = choose_checks(failed)
    assert {check.verdict for check in checks} == {Verdict.FAIL}
    again = replay(failed, checks)
    assert again.reproduced
    assert not again.changed
    assert [pair.replayed.p_value for pair in again.checks] == [c.p_value for c in checks]
    assert all(pair.replayed.n > 0 for pair in again.checks)


def test_a_scenario_that_a_stop_left_unfinished_is_replayed_as_far(failed: AuditResult) -> None:
    # The alarm of one scenario ended the others at unequal numbers of shards.
    everything = choose_checks(failed, "*")
    assert len(everything) == len(failed.checks)
    assert replay(failed, everything).reproduced


def test_settings_of_the_audit_are_used_again() -> None:
    result = recorded(
        f"{PLANTED}:correct",
        seed=3,
        budget=Budget(calls=1500),
        declare="lossy:0.2",
        false_alarm=1e-3,
        expected_failures={"token[markov]": "known"},
    )
    again = replay(result, choose_checks(result, "*"))
    assert again.seed == 3
    assert again.reproduced


def test_a_traced_law_and_its_smallest_case_are_found_again() -> None:
    result = recorded(f"{PLANTED}:resample_from_target", mode="exact")
    checks = [check for check in choose_checks(result) if check.name.startswith("exact[")]
    (searched,) = (check for check in checks if check.case is not None)
    assert "snippet" in searched.case
    doctored = msgspec.structs.replace(searched, case=searched.case | {"tv": 0.5})
    *honest, last = replay(result, [*checks, doctored]).checks
    assert not any(pair.differing for pair in honest)
    assert [pair.replayed.tv for pair in honest] == [check.tv for check in checks]
    assert last.differing == ("case",)


def test_an_error_is_reproduced_with_its_message(tmp_path: Path) -> None:
    file = tmp_path / "raising.py"
    file.write_text(RAISING)
    result = recorded(f"{file}:verify", seed=6, form="verify")
    (error,) = choose_checks(result)
    assert error.verdict is Verdict.ERROR
    again = replay(result, [error])
    assert again.reproduced
    assert again.checks[0].replayed.case == error.case


def test_a_doctored_record_is_not_reproduced(failed: AuditResult) -> None:
    (first, *_) = choose_checks(failed)
    doctored = msgspec.structs.replace(first, n=first.n + 1, p_value=0.5)
    again = replay(failed, [doctored])
    assert not again.reproduced
    assert again.checks[0].differing == ("n", "p_value")


def test_a_mended_implementation_is_not_reproduced_and_told(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(PLANTED.read_text())
    result = recorded(f"{file}:resample_from_target")
    source = PLANTED.read_text()
    mended = source.replace(
        "return _emit(draft_tokens, n, target_probs[n], generator)",
        "return correct(target_probs, draft_probs, draft_tokens, generator)",
    )
    assert mended != source
    file.write_text(mended)
    again = replay(result, choose_checks(result))
    assert not again.reproduced
    assert again.changed == ("the implementation was edited",)
    assert all("verdict" in pair.differing for pair in again.checks)


def test_another_seed_compares_verdicts_alone(failed: AuditResult) -> None:
    checks = choose_checks(failed)[:1]
    other = replay(failed, checks, seed=1)
    assert other.seed == 1
    assert other.checks[0].replayed.statistic != checks[0].statistic
    doctored = msgspec.structs.replace(checks[0], verdict=Verdict.PASS)
    assert replay(failed, [doctored], seed=1).checks[0].differing == ("verdict",)


def check(name: str, verdict: Verdict, **params: Any) -> CheckResult:
    return CheckResult(name=name, family="law", verdict=verdict, params=params)  # type: ignore[arg-type]


def test_what_failed_comes_before_errors_and_these_before_suspicions(failed: AuditResult) -> None:
    fail, error = check("f[a]", Verdict.FAIL), check("e[a]", Verdict.ERROR)
    doubt = check("d[a]", Verdict.INCONCLUSIVE, chi_square_p=1e-5)
    quiet = check("q[a]", Verdict.INCONCLUSIVE, chi_square_p=0.5)
    right = check("r[a]", Verdict.PASS, chi_square_p=1e-5)
    for present, chosen in (
        ((right, doubt, error, fail), (fail,)),
        ((right, doubt, error), (error,)),
        ((right, doubt, quiet), (doubt,)),
        ((right, quiet), ()),
    ):
        assert choose_checks(msgspec.structs.replace(failed, checks=present)) == chosen


def test_a_check_that_is_not_there_is_named_with_those_that_are(failed: AuditResult) -> None:
    with pytest.raises(UnknownTargetError, match=r"'tokn\[markov\]'.*did you mean token\[markov\]"):
        choose_checks(failed, "tokn[markov]")
    assert {c.name.partition("[")[0] for c in choose_checks(failed, "token")} == {"token"}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"settings": {}}, "an earlier version recorded it"),
        ({"target": {"name": "f", "spec": None}}, "the callable f that a program handed over"),
    ],
)
def test_a_record_that_does_not_say_enough_is_refused(
    failed: AuditResult, change: dict[str, Any], said: str
) -> None:
    result = msgspec.structs.replace(failed, **change)
    with pytest.raises(InvalidInputError, match=said):
        replay(result, choose_checks(result))


def test_a_callable_of_a_program_cannot_be_found_again() -> None:
    result = recorded(speculative_verify, framework="numpy", budget=Budget(calls=100))
    with pytest.raises(InvalidInputError, match="handed over"):
        replay(result, choose_checks(result, "*"))


def test_a_skipped_check_was_not_run(failed: AuditResult) -> None:
    with pytest.raises(InvalidInputError, match="was not run"):
        replay(failed, [check("token[a]", Verdict.SKIP)])


def test_a_replay_is_standard_json(failed: AuditResult) -> None:
    again = replay(failed, choose_checks(failed)[:1])
    shown = json.loads(msgspec.json.encode(again))
    assert shown["checks"][0]["recorded"]["p_value"] == again.checks[0].recorded.p_value
