"""Audits to render: built by hand, so that a rendering is tested without running anything."""

from __future__ import annotations

import pytest

from specverify.results import (
    AuditResult,
    CheckResult,
    Diagnosis,
    Family,
    Finding,
    Interval,
    RunStatus,
    Summary,
    Verdict,
)

TOKENS = CheckResult(
    name="tokens[markov-v8]",
    family=Family.LAW,
    verdict=Verdict.FAIL,
    n=20_000,
    statistic=812.5,
    p_value=3.1e-120,
    p_adjusted=3.7e-119,
    tv=Interval(estimate=0.0972, low=0.0901, high=0.1043, confidence=0.95),
    detectable_tv=0.0131,
    power=0.95,
    message="emitted tokens do not follow the target",
    diagnosis=Diagnosis(
        text="the law breaks at the correction token",
        consistent_with="resample-from-target",
        stage="residual",
        position=1,
        siblings=("abs-residual",),
    ),
    case={"draft_tokens": [1, 2]},
)
LENGTH = CheckResult(
    name="length[markov-v8]",
    family=Family.EFFICIENCY,
    verdict=Verdict.PASS,
    n=20_000,
    p_value=0.41,
    p_adjusted=1.0,
    detectable_tv=0.0131,
    power=0.95,
)
SEED = CheckResult(
    name="determinism", family=Family.CONTRACT, verdict=Verdict.SKIP, message="takes no generator"
)
INTERFACE = CheckResult(name="interface", family=Family.CONTRACT, verdict=Verdict.PASS, n=20_000)


def _audit(verdict: Verdict, law: Verdict, *checks: CheckResult) -> AuditResult:
    return AuditResult(
        run_id="20260101T000000-0",
        status=RunStatus.COMPLETE,
        verdict=verdict,
        started="2026-01-01T00:00:00+00:00",
        ended="2026-01-01T00:00:03+00:00",
        argv=("specverify", "audit", "my|file.py:verify"),
        seed=7,
        environment={"python": "3.11"},
        target={"name": "my|file.py:verify", "form": "verify", "framework": "torch"},
        error_budget={"level": 1e-6},
        checks=checks,
        acceptance={"markov-v8": {"tokens_per_pass": 2.5, "one_minus_tv": [0.7, 0.6]}},
        timing={"seconds": 3.2},
        summary=Summary(
            law=law,
            efficiency=Verdict.PASS,
            contract=Verdict.PASS,
            headline="The emitted tokens were compared with the target's law.",
            findings=(Finding(code="no-bonus-token", text="Tokens/pass is (1-a^K)/(1-a)."),),
        ),
    )


@pytest.fixture
def failing_audit() -> AuditResult:
    return _audit(Verdict.FAIL, Verdict.FAIL, LENGTH, TOKENS, SEED, INTERFACE)


@pytest.fixture
def passing_audit() -> AuditResult:
    return _audit(Verdict.PASS, Verdict.PASS, LENGTH, SEED)


@pytest.fixture
def empty_audit() -> AuditResult:
    return _audit(Verdict.INCONCLUSIVE, Verdict.INCONCLUSIVE)
