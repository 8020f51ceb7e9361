"""What exact audits refuse or do not believe, and what they do instead.

Level of a confirmation 1e-9, false-alarm level of the audits by samples 1e-6; seeds fixed.
"""

from __future__ import annotations

import math
import os
import time
from typing import Any

import numpy as np
import pytest
from exact_for_tests import exact_audit, exact_checks

from specverify.audit.config import AuditConfig
from specverify.audit.confirming import LEVEL, confirm
from specverify.audit.evidence import entropy_p_value
from specverify.audit.forms import Form
from specverify.audit.run import audit
from specverify.audit.samplers import call_case
from specverify.audit.scenarios import find
from specverify.audit.verdicts import exit_code
from specverify.bugs import ZOO
from specverify.exact.law import ExactLaw, enumerate_law
from specverify.exact.tape import active_tape
from specverify.results import Verdict
from specverify.sampler.verify import speculative_verify

HERE = __file__
SMALLEST = ("exact[smallest]", "token[smallest]")


def opaque(target_probs: Any, draft_probs: Any, draft_tokens: Any, generator: Any) -> Any:
    raw = np.random.default_rng(int(generator.bit_generator.random_raw()))
    return speculative_verify(target_probs, draft_probs, draft_tokens, raw)


def test_what_cannot_be_traced_is_sampled_and_the_reason_given() -> None:
    result = exact_audit(opaque, mode="auto", tv=0.1, gammas=(3,))
    assert result.verdict is Verdict.PASS
    for check in exact_checks(result).values():
        assert check.verdict is Verdict.SKIP
        assert "bit_generator" in check.message
        assert f"{HERE}:" in check.params["reason"]
        assert check.message.endswith("sampled instead")
    assert [finding.code for finding in result.summary.findings] == ["not-traced"]
    assert any(c.name.startswith("token[") and c.verdict is Verdict.PASS for c in result.checks)


def test_exact_mode_decides_nothing_where_nothing_is_traced() -> None:
    result = exact_audit(opaque, gammas=(3,))
    assert exit_code(result) == 3
    assert {c.verdict for c in result.checks} == {Verdict.INCONCLUSIVE}
    assert result.timing["calls"] == 0


def two_faced(target_probs: Any, draft_probs: Any, draft_tokens: Any, generator: Any) -> Any:
    """Right while it is watched."""
    if active_tape() is not None:
        return speculative_verify(target_probs, draft_probs, draft_tokens, generator)
    return ZOO["resample_from_target"].callable(target_probs, draft_probs, draft_tokens, generator)


def test_a_law_that_ordinary_calls_do_not_follow_is_not_believed() -> None:
    result = exact_audit(two_faced, mode="auto", gammas=(1, 3), tv=0.1, checks=("exact", "token"))
    assert result.verdict is Verdict.FAIL
    told = exact_checks(result)["zeros-in-target"]
    assert told.verdict is Verdict.SKIP
    assert told.message.startswith("discarded: ")
    assert told.params["p_value"] < LEVEL
    assert "exact-law-discarded" in {finding.code for finding in result.summary.findings}
    failed = {c.name for c in result.checks if c.verdict is Verdict.FAIL}
    assert failed
    assert all(name.startswith("token[") for name in failed)


def crashes_when_traced(
    target_probs: np.ndarray, draft_probs: Any, draft_tokens: Any, generator: Any
) -> Any:
    if active_tape() is not None:
        os._exit(3)
    return speculative_verify(target_probs, draft_probs, draft_tokens, generator)


def hangs_when_traced(
    target_probs: np.ndarray, draft_probs: Any, draft_tokens: Any, generator: Any
) -> Any:
    while active_tape() is not None:
        time.monotonic()
    return speculative_verify(target_probs, draft_probs, draft_tokens, generator)


@pytest.mark.parametrize(
    ("name", "said"),
    [("crashes_when_traced", "exit code 3"), ("hangs_when_traced", "did not return within")],
)
def test_what_ends_the_tracer_does_not_end_the_audit(name: str, said: str) -> None:
    config = AuditConfig(
        framework="numpy", gammas=(1,), tv=0.2, workers=1, time_limit=0.5, checks=SMALLEST
    )
    result = audit(f"{HERE}:{name}", config=config)
    assert result.verdict is Verdict.PASS
    assert said in exact_checks(result)["smallest"].params["reason"]


def rejection_sampling(
    target_probs: Any, draft_probs: Any, draft_tokens: Any, generator: Any
) -> Any:
    """The residual by rejection: no path is the longest one."""
    for place, token in enumerate(draft_tokens.tolist()):
        target, draft = target_probs[place], draft_probs[place]
        if generator.random() >= target[token] / draft[token]:
            while True:
                drawn = generator.choice(len(target), p=target)
                if generator.random() * target[drawn] < target[drawn] - draft[drawn]:
                    return [*draft_tokens[:place].tolist(), int(drawn)]
    last = generator.choice(target_probs.shape[1], p=target_probs[-1])
    return [*draft_tokens.tolist(), int(last)]


def test_a_loop_that_chance_alone_ends_is_refused() -> None:
    check = exact_checks(exact_audit(rejection_sampling, gammas=(2,), checks=("exact[near-ties]",)))
    assert check["near-ties"].verdict is Verdict.INCONCLUSIVE
    assert "a loop that chance alone ends" in check["near-ties"].message


def test_a_call_that_hangs_in_this_process_is_refused() -> None:
    result = exact_audit(hangs_when_traced, time_limit=0.3, checks=SMALLEST)
    assert "did not return within" in exact_checks(result)["smallest"].params["reason"]


@pytest.mark.parametrize("note", [[], [0]])
def test_a_worker_may_end_between_ordinary_calls(note: list[int]) -> None:
    assert call_case(find(Form.VERIFY, "smallest"), note) == {"scenario": "smallest"}


def raises_when_traced(
    target_probs: Any, draft_probs: Any, draft_tokens: Any, generator: Any
) -> Any:
    if active_tape() is not None:
        raise RuntimeError("not here")
    return speculative_verify(target_probs, draft_probs, draft_tokens, generator)


def test_exceptions_under_the_tracer_alone_are_no_failure() -> None:
    check = exact_checks(exact_audit(raises_when_traced))["smallest"]
    assert check.verdict is Verdict.INCONCLUSIVE


def law_of(*masses: float, unexplored: float = 0.0) -> ExactLaw:
    law = enumerate_law(lambda: active_tape().choose(masses, "token"))  # type: ignore[union-attr]
    law = law.map(lambda token: (token,))
    return law if not unexplored else _partly(law, unexplored)


def _partly(law: ExactLaw, share: float) -> ExactLaw:
    kept = {outcome: mass * (1 - share) for outcome, mass in law.probabilities.items()}
    return ExactLaw(
        probabilities=kept,
        paths=law.paths,
        runs=law.runs,
        unexplored_mass=share,
        exceptions={},
        slack=0.0,
        seconds=0.0,
    )


def test_confirmation_is_valid_and_sharp() -> None:
    rng = np.random.default_rng(0)
    sample = [(int(token),) for token in rng.choice(3, 500, p=[0.5, 0.3, 0.2])]
    assert confirm(law_of(0.5, 0.3, 0.2), sample) > 0.01
    assert confirm(law_of(0.2, 0.3, 0.5), sample) < LEVEL
    assert confirm(law_of(0.5, 0.5), sample) < LEVEL  # a token that the law never emits
    assert confirm(law_of(0.5, 0.3, 0.2, unexplored=0.3), sample) > 0.01
    assert confirm(law_of(0.1, 0.1, 0.8, unexplored=0.1), sample) < LEVEL


def test_a_part_of_many_rare_outcomes_is_confirmed_as_a_whole() -> None:
    masses = (0.002,) * 500  # of 500 completions, one each
    sample = [(int(token),) for token in np.random.default_rng(0).integers(500, size=500)]
    assert confirm(law_of(*masses, unexplored=0.5), sample) > 0.01
    assert confirm(law_of(*masses, unexplored=0.5), [(500,)] * 500) < LEVEL


def raising(*masses: float, exception: float) -> ExactLaw:
    return ExactLaw(
        probabilities={(token,): mass for token, mass in enumerate(masses)},
        paths=1,
        runs=1,
        unexplored_mass=0.0,
        exceptions={"E": exception},
        slack=0.0,
        seconds=0.0,
    )


def test_confirmation_of_a_whole_law_by_hand() -> None:
    """Relative entropy of all cells: rare outcomes are one, foreign ones and exceptions another."""
    sample = [(0,)] * 80 + [(1,)] * 10 + [(2,)] * 10
    often = 80 * math.log(0.8 / 0.5) + 10 * math.log(0.1 / 0.4)
    rare = law_of(0.5, 0.4, *(0.01,) * 10)
    assert confirm(rare, sample) == pytest.approx(entropy_p_value(often, 3), rel=1e-3)
    foreign = raising(0.5, 0.4, exception=0.1)
    assert confirm(foreign, sample) == pytest.approx(entropy_p_value(often, 3), rel=1e-3)
    third = often + 10 * math.log(0.1 / 0.09)
    known = raising(0.5, 0.4, 0.09, exception=0.01)
    assert confirm(known, sample) == pytest.approx(entropy_p_value(third, 4), rel=1e-3)


def test_confirmation_of_a_part_by_hand() -> None:
    """Of each outcome, and of all together, too few count: the rarest tail, three times."""
    part = law_of(0.8, 0.2, unexplored=0.5)
    assert confirm(part, [(0,)] * 60 + [(2,)] * 40) == pytest.approx(3 * 0.9**100)
    assert confirm(part, [(0,)] * 90 + [(1,)] * 10) == 1.0
    assert LEVEL == 1e-9


def now_and_then_two_faced(
    target_probs: Any, draft_probs: Any, draft_tokens: Any, generator: Any
) -> Any:
    """Right while it is watched; else wrong with two tokens, and now and then with more."""
    arguments = (target_probs, draft_probs, draft_tokens, generator)
    if active_tape() is not None:
        return speculative_verify(*arguments)
    if target_probs.shape == (2, 2):
        return np.zeros(1, dtype=np.int64), 0
    often = generator.random() < 0.98
    return (speculative_verify if often else ZOO["resample_from_target"].callable)(*arguments)


TWO_CHECKED = "smallest", "zeros-in-draft"


def test_one_law_that_is_not_believed_withdraws_all_proofs() -> None:
    settings = {"mode": "auto", "gammas": (1, 2), "tv": 0.2}
    checks = tuple(f"{check}[{name}]" for check in ("exact", "token") for name in TWO_CHECKED)
    result = exact_audit(now_and_then_two_faced, checks=checks, **settings)
    told = exact_checks(result)
    assert told["smallest"].message.startswith("discarded: ")
    assert all(told[name].verdict is Verdict.SKIP for name in TWO_CHECKED)
    assert "in smallest the code is not the same" in told["zeros-in-draft"].message
    assert "proved" not in result.summary.headline
    assert "token[zeros-in-draft]" in {check.name for check in result.checks}
    # Two reasons, and one finding: it is the headline of many an audit.
    (told_once,) = [f for f in result.summary.findings if f.code == "exact-law-discarded"]
    assert set(told_once.data) == set(TWO_CHECKED)
    assert told_once.text.startswith("no exact law in 2 scenarios: ")
    assert told_once.text.endswith(" (and 1 other reason)")
