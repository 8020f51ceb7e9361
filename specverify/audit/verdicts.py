"""From check results to the verdicts that a user acts on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from specverify.audit.checks.fit import TOO_GOOD, doubted
from specverify.audit.config import AuditConfig
from specverify.audit.tiers import completions_text
from specverify.results import AuditResult, CheckResult, Family, RunStatus, Verdict

__all__ = ["apply_declarations", "exit_code", "family_verdict", "overall_verdict"]

_EXIT_CODES = {
    Verdict.PASS: 0,
    Verdict.XFAIL: 0,
    Verdict.FAIL: 1,
    Verdict.ERROR: 1,
    Verdict.INCONCLUSIVE: 3,
    Verdict.SKIP: 3,
    Verdict.XPASS: 4,
}
_INTERRUPTED = 130
_GRAVITY = (Verdict.ERROR, Verdict.FAIL, Verdict.XPASS, Verdict.INCONCLUSIVE, Verdict.PASS)


def apply_declarations(
    checks: Iterable[CheckResult], config: AuditConfig
) -> tuple[CheckResult, ...]:
    """Judge checks by what was declared: a distance that is allowed, failures that are expected.

    Before that, passes are withdrawn where all the checks together fit too well to be true.
    """
    judged = doubted(list(checks), config.false_alarm)
    return tuple(_expected(_lossy(check, config), config) for check in judged)


def _lossy(check: CheckResult, config: AuditConfig) -> CheckResult:
    declared = config.declared_tv
    if declared is None or check.family is not Family.LAW or check.tv is None:
        return check
    if check.params.get(TOO_GOOD):
        return check
    low, high = check.tv.low or 0.0, check.tv.high
    if low > declared:
        text = f"total variation above {low:.3g}, declared {declared:g}"
        return replace(check, verdict=Verdict.FAIL, message=text)
    if check.verdict is Verdict.SKIP:
        return check  # looked at in vain: others judge this law
    if high is None or high > declared:
        text = f"{check.message}; not yet known to lie under the declared {declared:g}"
        text += _missing(check, declared)
        return replace(check, verdict=Verdict.INCONCLUSIVE, message=text, diagnosis=None)
    text = f"total variation at most {high:.3g}, declared {declared:g}"
    return replace(check, verdict=Verdict.PASS, message=text, diagnosis=None)


def _missing(check: CheckResult, declared: float) -> str:
    """Completions that may bring the upper bound under what was declared, if any number does."""
    tv = check.tv
    if tv is None or tv.high is None or tv.estimate is None or tv.estimate >= declared:
        return ""
    done = check.n / (int(check.params["length"]) if check.name.startswith("token[") else 1)
    # The bound comes down to the estimate with the root of the completions.
    growth = ((tv.high - tv.estimate) / (declared - tv.estimate)) ** 2
    return f": {completions_text(done * (growth - 1))} may show it" if done else ""


def _expected(check: CheckResult, config: AuditConfig) -> CheckResult:
    reason = config.expected_failure(check.name)
    if reason is None:
        return check
    params = check.params | {"expected_failure": reason}
    if check.verdict in (Verdict.FAIL, Verdict.ERROR):
        return replace(check, verdict=Verdict.XFAIL, params=params)
    if check.verdict is Verdict.PASS:
        return replace(check, verdict=Verdict.XPASS, params=params)
    return check


def family_verdict(checks: Sequence[CheckResult], family: Family) -> Verdict:
    """Gravest verdict of a family; ``skip`` where it has no checks."""
    verdicts = {check.verdict for check in checks if check.family is family}
    for verdict in _GRAVITY:
        if verdict in verdicts:
            return verdict
    return Verdict.XFAIL if Verdict.XFAIL in verdicts else Verdict.SKIP


def overall_verdict(checks: Sequence[CheckResult], config: AuditConfig) -> Verdict:
    """Verdict of the audit: law and errors always, efficiency where a scheme is expected.

    A scheme that is lossless and slower, or an answer that a seed does not fix, is a finding.
    """
    counted = [check for check in checks if _counts(check, config)]
    if any(check.verdict is Verdict.XPASS for check in checks):
        counted += [check for check in checks if check.verdict is Verdict.XPASS]
    verdicts = {check.verdict for check in counted}
    for verdict in _GRAVITY:
        if verdict in verdicts:
            return verdict
    return Verdict.PASS if Verdict.XFAIL in verdicts else Verdict.INCONCLUSIVE


def exit_code(result: AuditResult) -> int:
    """Exit code of a command that ends with this result.

    Returns:
        0 passed (or failed as declared), 1 a check failed or the implementation misbehaved, 3
        inconclusive or nothing ran, 4 a declared failure passed, 130 interrupted.
    """
    if result.status is RunStatus.INTERRUPTED:
        return _INTERRUPTED
    return _EXIT_CODES[result.verdict]


def _counts(check: CheckResult, config: AuditConfig) -> bool:
    if check.verdict is Verdict.ERROR or check.family is Family.LAW:
        return True
    return check.family is Family.EFFICIENCY and config.expect != "lossless"
