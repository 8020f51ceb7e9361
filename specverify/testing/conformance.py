"""The conformance checks: one question each, asked of one implementation."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from specverify.results import AuditResult, CheckResult, Verdict
from specverify.testing.evidence import Evidence
from specverify.testing.failures import (
    ConformanceError,
    EfficiencyWarning,
    InconclusiveError,
)
from specverify.testing.laws import length_tv, marginal_tv, unsupported_mass
from specverify.testing.lossless import judge_enumeration
from specverify.testing.messages import audit_failure, open_question, repeat
from specverify.testing.naming import display_name
from specverify.testing.session import FALSE_ALARM, active_session

__all__ = ["CHECKS", "Check"]

_Question = Callable[[Evidence], None]


def token_law(evidence: Evidence) -> None:
    """Each position's token, alone, has the target's law."""
    __tracebackhide__ = True
    law = evidence.law
    if isinstance(law, AuditResult):
        _judge_samples(evidence, law, "token")
        return
    worst = max((marginal_tv(r) or 0.0, r.name) for r in law.results)
    if worst[0] > law.results[0].check.tolerance:
        _refuse(evidence, f"a token's law is {worst[0]:.6g} away from the target's in {worst[1]}")


def joint_law(evidence: Evidence) -> None:
    """All tokens of a block together have the target's law."""
    __tracebackhide__ = True
    law = evidence.law
    if isinstance(law, AuditResult):
        _judge_samples(evidence, law, "joint")
        return
    judge_enumeration(evidence, law)


def support(evidence: Evidence) -> None:
    """No token is emitted that the target never emits."""
    __tracebackhide__ = True
    law = evidence.law
    if isinstance(law, AuditResult):
        seen = sum(int(c.params.get("impossible_tokens", 0)) for c in law.checks)
        if seen:
            _refuse(evidence, f"{seen} sampled tokens have target probability 0")
        return
    worst = max((unsupported_mass(r) or 0.0, r.name) for r in law.results)
    if worst[0] > law.results[0].check.tolerance:
        _refuse(evidence, f"tokens of target probability 0 have mass {worst[0]:.6g} in {worst[1]}")


def emitted_length(evidence: Evidence) -> None:
    """As many tokens are emitted as by the standard rule; a difference is a warning."""
    law = evidence.law
    if isinstance(law, AuditResult):
        slow = [c.message for c in _named(law, "length") if c.verdict is Verdict.FAIL]
        if slow:
            _warn(evidence, slow[0])
        return
    worst = max(law.results, key=lambda result: length_tv(result) or 0.0)
    distance = length_tv(worst) or 0.0
    if distance > worst.check.tolerance:
        _warn(evidence, f"emitted lengths differ from the standard rule's by {distance:.6g} in "
              f"{worst.name} ({worst.check.mean_emitted:.6g} tokens a pass)")  # fmt: skip


def returns_valid_tokens(evidence: Evidence) -> None:
    """Every call returns 1 to gamma + 1 ids of the vocabulary, and raises nothing."""
    __tracebackhide__ = True
    for check in _errors(evidence):
        if check.params.get("error") != "InputMutatedError":
            _refuse(evidence, f"{check.message}; input: {check.case}")


def no_mutation(evidence: Evidence) -> None:
    """The arrays that were passed in are left alone."""
    __tracebackhide__ = True
    for check in _errors(evidence):
        if check.params.get("error") == "InputMutatedError":
            _refuse(evidence, check.message)


def deterministic_under_seed(evidence: Evidence) -> None:
    """An equal seed gives equal answers."""
    __tracebackhide__ = True
    for check in _named(evidence.contract, "reproducible"):
        if check.verdict is Verdict.FAIL:
            _refuse(evidence, check.message)


CHECKS: dict[str, _Question] = {
    question.__name__: question
    for question in (
        token_law,
        joint_law,
        support,
        emitted_length,
        returns_valid_tokens,
        no_mutation,
        deterministic_under_seed,
    )
}
"""Questions by name."""

_INTERFACE = ("returns_valid_tokens", "no_mutation", "deterministic_under_seed")
_OF_A_LOOP = ("joint_law", *_INTERFACE)


def names_for(form: str) -> tuple[str, ...]:
    """Checks that apply to a form: a whole loop's law is judged as one."""
    return _OF_A_LOOP if form == "decode" else tuple(CHECKS)


@dataclass(frozen=True, kw_only=True)
class Check:
    """One conformance check, to be called on an implementation.

    Attributes:
        name: Name, one of :data:`CHECKS`.
        evidence: What is known of the implementation it was made for; shared with its neighbours.
    """

    name: str
    evidence: Evidence = field(repr=False)

    @property
    def __name__(self) -> str:
        """As functions have."""
        return self.name

    def __call__(self, implementation: Any) -> None:
        """Ask the question.

        Args:
            implementation: The one that the check was made for, or any other.

        Raises:
            ConformanceError: If the answer is no.
        """
        __tracebackhide__ = True
        known = self.evidence
        if implementation is not known.implementation:
            known = Evidence(implementation, known.options, next_level)
        verdict = Verdict.FAIL
        try:
            CHECKS[self.name](known)
            verdict = Verdict.PASS
        except InconclusiveError:
            verdict = Verdict.INCONCLUSIVE
            raise
        finally:
            session = active_session()
            if session is not None:
                entry = known.record(self.name, verdict)
                session.entries.append(
                    entry | ({"mode": "calls"} if self.name in _INTERFACE else {})
                )


def next_level() -> float:
    """Level of the next statistical audit: the pytest run's share, or the default outside one."""
    session = active_session()
    return FALSE_ALARM if session is None else session.next_level()


def _named(result: AuditResult, check: str) -> list[CheckResult]:
    return [found for found in result.checks if found.name.startswith(f"{check}[")]


def _judge_samples(evidence: Evidence, result: AuditResult, check: str) -> None:
    __tracebackhide__ = True
    found = {c.verdict for c in _named(result, check)}
    if Verdict.FAIL in found:
        raise audit_failure(evidence, result)
    # Scenarios that the budget left out have no checks: the audit as a whole must be settled.
    if Verdict.INCONCLUSIVE in found | {result.summary.law} or not found:
        raise InconclusiveError(open_question(evidence))


def _errors(evidence: Evidence) -> list[CheckResult]:
    checks = _named(evidence.contract, "interface")
    return [check for check in checks if check.verdict is Verdict.ERROR]


def _refuse(evidence: Evidence, text: str) -> None:
    __tracebackhide__ = True
    lines = [f"{display_name(evidence.implementation)}: {text}", *repeat(evidence)]
    raise ConformanceError("\n".join(lines))


def _warn(evidence: Evidence, text: str) -> None:
    name = display_name(evidence.implementation)
    warnings.warn(f"{name}: {text}", EfficiencyWarning, stacklevel=2)
