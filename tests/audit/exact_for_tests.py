"""Exact audits in this process, and their checks."""

from __future__ import annotations

from typing import Any

from specverify.audit.config import AuditConfig
from specverify.audit.run import audit
from specverify.results import AuditResult, CheckResult


def exact_audit(target: Any, **settings: Any) -> AuditResult:
    """Exact checks alone, in this process."""
    usual = {"mode": "exact", "framework": "numpy", "isolation": "inline", "gammas": (1,)}
    return audit(target, config=AuditConfig(**usual | settings))


def exact_checks(result: AuditResult) -> dict[str, CheckResult]:
    return {str(c.params["scenario"]): c for c in result.checks if c.name.startswith("exact[")}
