"""Result types: what an audit says, and nothing about how it was found or shown.

Every type is a frozen ``msgspec.Struct``: ``msgspec.json.encode`` writes ``result.json``, and
``msgspec.json.schema`` writes the schema that is shipped beside it. Non-finite numbers become null.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec

__all__ = [
    "SCHEMA_VERSION",
    "AuditResult",
    "CheckResult",
    "Diagnosis",
    "Family",
    "Finding",
    "Interval",
    "RunStatus",
    "Summary",
    "Verdict",
]

SCHEMA_VERSION = 1


class Verdict(StrEnum):
    """Outcome of one check or of a whole audit.

    A check that fails although it was declared to fail is ``xfail``; one that passes although it
    was declared to fail is ``xpass``. ``error`` says that the audited implementation crashed, hung
    or returned nonsense.
    """

    PASS = "pass"
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"
    ERROR = "error"
    SKIP = "skip"
    XFAIL = "xfail"
    XPASS = "xpass"


class Family(StrEnum):
    """What a check speaks about.

    ``law``: the distribution of the emitted tokens. ``efficiency``: acceptance and tokens per pass.
    ``contract``: types, ranges, mutation, determinism under a seed.
    """

    LAW = "law"
    EFFICIENCY = "efficiency"
    CONTRACT = "contract"


class RunStatus(StrEnum):
    """Whether the run came to its end."""

    COMPLETE = "complete"
    INTERRUPTED = "interrupted"


class Interval(msgspec.Struct, frozen=True, kw_only=True):
    """An estimate with its two-sided bounds; ``None`` where a side is unknown.

    Attributes:
        estimate: Point estimate.
        low: Lower bound.
        high: Upper bound.
        confidence: Coverage of ``[low, high]``, in (0, 1).
    """

    estimate: float | None = None
    low: float | None = None
    high: float | None = None
    confidence: float | None = None


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """What a failure looks like: a hint, never more than the data say.

    Attributes:
        text: One sentence for people.
        consistent_with: Name of the known bug that fits best, if any.
        stage: ``draft``, ``accept``, ``residual``, ``bonus``, ``parameters``, ``randomness``, ...
        position: First position (0-based within the block or completion) where the law breaks.
        siblings: Other known bugs that fit nearly as well.
    """

    text: str
    consistent_with: str | None = None
    stage: str | None = None
    position: int | None = None
    siblings: tuple[str, ...] = ()


class CheckResult(msgspec.Struct, frozen=True, kw_only=True):
    """Outcome of one check on one scenario.

    Attributes:
        name: ``check[scenario]``.
        version: Version of the check's definition; raised when its meaning changes.
        family: Law, efficiency or contract.
        params: Parameters of the check and its scenario (JSON-compatible).
        verdict: The outcome.
        n: Observations used.
        statistic: Test statistic.
        p_value: Valid p-value of "the implementation is right", never exactly 0 by simulation.
        e_value: Evidence against "the implementation is right", valid at any stopping time.
        p_adjusted: ``p_value`` after the correction for all checks of the audit.
        tv: Total variation distance between the emitted and the expected law.
        detectable_tv: Smallest distance that this check finds with probability ``power``.
        power: Power that ``detectable_tv`` refers to.
        message: One line for people.
        diagnosis: What a failure looks like.
        replay: Arguments that re-run this check alone.
        case: The input that made an implementation misbehave.
    """

    name: str
    family: Family
    verdict: Verdict
    version: int = 1
    params: dict[str, Any] = {}
    n: int = 0
    statistic: float | None = None
    p_value: float | None = None
    e_value: float | None = None
    p_adjusted: float | None = None
    tv: Interval | None = None
    detectable_tv: float | None = None
    power: float | None = None
    message: str = ""
    diagnosis: Diagnosis | None = None
    replay: dict[str, Any] | None = None
    case: dict[str, Any] | None = None


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """Something worth knowing that is not a breach of the law, e.g. a scheme without bonus token.

    Attributes:
        code: Stable identifier, e.g. ``no-bonus-token``.
        text: One or two sentences for people.
        data: Numbers behind it.
    """

    code: str
    text: str
    data: dict[str, Any] = {}


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """The two verdicts and what to read first.

    Attributes:
        law: Are the emitted tokens distributed as the target's?
        efficiency: Do acceptance and tokens/pass follow the standard rule?
        contract: Does the implementation keep its interface?
        headline: One sentence.
        findings: Deviations that do not break the law.
    """

    law: Verdict
    efficiency: Verdict
    contract: Verdict
    headline: str
    findings: tuple[Finding, ...] = ()


class AuditResult(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that one audit found; the content of ``result.json``.

    Attributes:
        schema_version: Version of this layout.
        run_id: Identifier of the run.
        status: Whether it came to its end.
        verdict: The overall verdict, from which the exit code follows.
        started: UTC, ISO 8601.
        ended: UTC, ISO 8601.
        argv: The command, or the call's arguments.
        seed: Root seed of every draw.
        environment: Versions and machine.
        target: What was audited: name, form, framework, version, fingerprint, what it declares.
        settings: Settings that the verdicts depend on.
        error_budget: False-alarm level and how it was shared.
        checks: Every check.
        acceptance: Acceptance rates, by name.
        timing: Seconds and calls.
        summary: The verdicts and findings.
    """

    schema_version: int = SCHEMA_VERSION
    run_id: str
    status: RunStatus
    verdict: Verdict
    started: str
    ended: str
    argv: tuple[str, ...]
    seed: int
    environment: dict[str, Any]
    target: dict[str, Any]
    settings: dict[str, Any] = {}
    error_budget: dict[str, Any]
    checks: tuple[CheckResult, ...]
    acceptance: dict[str, Any]
    timing: dict[str, Any]
    summary: Summary
