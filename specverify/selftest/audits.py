"""The audit itself as a way of looking: in this process, few completions, stopped early."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from specverify.audit.config import AuditConfig
from specverify.audit.forms import Form, Framework
from specverify.audit.run import audit
from specverify.bugs import Bug, Effect, Role
from specverify.results import AuditResult, CheckResult, Family, Verdict
from specverify.selftest.outcome import Sighting
from specverify.selftest.settings import LEVEL, Settings

__all__ = ["Audit", "judged"]

_SPOILT = {
    Effect.LAW: (Family.LAW,),
    Effect.EFFICIENCY: (Family.EFFICIENCY,),
    Effect.COUNTS: (Family.CONTRACT,),
    Effect.CONTRACT: (Family.CONTRACT,),
    Effect.NONE: (Family.LAW,),
}
"""Families of checks that ought to fail for what a bug spoils."""


@dataclass(frozen=True, kw_only=True)
class Audit:
    """Audits a member.

    Attributes:
        gammas: Block sizes of the scenarios; None for all.
        declare: What the member claims.
    """

    gammas: tuple[int, ...] | None = None
    declare: str = "lossless"

    def __call__(self, bug: Bug, settings: Settings, seed: int) -> Sighting:
        """Sample until the verdict is in."""
        config = AuditConfig(
            form=Form(str(bug.kind)),
            framework=Framework.NUMPY,
            mode="statistical",
            isolation="inline",
            tv=settings.tv,
            false_alarm=LEVEL,
            scenarios=settings.scenarios,
            gammas=self.gammas,
            declare=self.declare,
        )
        return judged(audit(bug.callable, config=config, seed=seed), bug, way="audit")


def judged(result: AuditResult, bug: Bug, *, way: str) -> Sighting:
    """What an audit says of a member: the strongest failing check of what it spoils.

    Args:
        result: The audit.
        bug: The member.
        way: Name of the way for the table.
    """
    calls = int(result.timing["calls"])
    # Of a control, whatever it does to the speed, and of a lossy member the law alone is asked.
    spoilt = _SPOILT[bug.effect] if bug.role is Role.BUG else (Family.LAW,)
    failing = [check for check in result.checks if _speaks(check, spoilt)]
    if failing:
        return _sighting(min(failing, key=_strength), way, calls)
    return Sighting(verdict=result.summary.law, way=way, calls=calls)


def _speaks(check: CheckResult, families: tuple[Family, ...]) -> bool:
    if check.verdict is Verdict.ERROR:
        return True
    return check.verdict is Verdict.FAIL and check.family in families


def _strength(check: CheckResult) -> tuple[Any, ...]:
    """Errors first, then checks that say where, then the smallest p-value."""
    placed = check.diagnosis is not None and check.diagnosis.position is not None
    return (check.verdict is not Verdict.ERROR, not placed, check.p_value or 0.0)


def _sighting(check: CheckResult, way: str, calls: int) -> Sighting:
    found = check.diagnosis
    return Sighting(
        verdict=check.verdict,
        way=way,
        check=check.name,
        position=None if found is None else found.position,
        named=None if found is None else found.consistent_with,
        siblings=() if found is None else found.siblings,
        calls=calls,
        note=check.message if check.verdict is Verdict.ERROR else "",
    )
