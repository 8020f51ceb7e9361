"""Everything that an audit found, as one result."""

from __future__ import annotations

import os
import platform
import sys
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib import metadata
from typing import Any

from msgspec.structs import replace

from specverify.audit.exact_naming import named
from specverify.audit.findings import find_all, summarise
from specverify.audit.forms import Form
from specverify.audit.header import settings_of
from specverify.audit.ledger import Unrecorded
from specverify.audit.session import Session
from specverify.audit.verdicts import overall_verdict
from specverify.results import AuditResult, CheckResult, RunStatus, Summary

__all__ = ["make_result"]

_PACKAGES = ("specdec-verify", "numpy", "scipy", "torch", "transformers")


def make_result(session: Session, argv: Sequence[str]) -> AuditResult:
    """Judge a session and record it.

    Args:
        session: The audit, sampled.
        argv: The command, or empty.

    Returns:
        The result.
    """
    checks = named(session.checks(), session.tallies)
    if session.form is Form.VERIFY:
        # Known bugs are loaded where there is something to name, and not before.
        from specverify.audit.diagnosis import diagnosed

        checks = diagnosed(checks, session.tallies)
    looks = [session.plan.terms(name, 0, efficiency=True) for name in session.scenarios]
    found = find_all(list(session.scenarios.values()), session.tallies, looks[0], checks)
    return AuditResult(
        run_id=uuid.uuid4().hex[:12],
        status=session.status,
        verdict=overall_verdict(checks, session.config),
        started=session.started.isoformat(timespec="seconds"),
        ended=datetime.now(UTC).isoformat(timespec="seconds"),
        argv=tuple(argv),
        seed=session.seed,
        environment=_environment(),
        target=session.target | {"declare": session.config.declare},
        settings=settings_of(session.config),
        error_budget=session.plan.error_budget(),
        checks=checks,
        acceptance=_acceptance(checks),
        timing=_timing(session),
        summary=_resumable(
            summarise(checks, found, declared_tv=session.config.declared_tv), session
        ),
    )


def _timing(session: Session) -> dict[str, Any]:
    earlier = session.record.found
    return session.seconds() | {
        "calls": sum(tally.total("calls") for tally in session.tallies.values()),
        "stopped": session.stopped or "judged",
        "resumed": {"shards": len(earlier), "completions": sum(done.n for done in earlier)},
    }


def _resumable(summary: Summary, session: Session) -> Summary:
    """The summary, which says of an interrupted audit how it goes on."""
    if session.status is not RunStatus.INTERRUPTED or isinstance(session.record, Unrecorded):
        return summary
    text = f"interrupted; the same command resumes it; {summary.headline}"
    return replace(summary, headline=text)


def _environment() -> dict[str, Any]:
    return {
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "cpus": os.cpu_count(),
        "executable": os.path.basename(sys.executable),
        "packages": {name: version for name in _PACKAGES if (version := _version(name))},
    }


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _acceptance(checks: Sequence[CheckResult]) -> dict[str, Any]:
    """Measured and expected acceptance and tokens/pass, by scenario."""
    rows: dict[str, dict[str, Any]] = {}
    keys = (
        "accepted_over_tested",
        "one_minus_tv",
        "expected_acceptance",
        "tokens_per_pass",
        "standard_error",
        "expected_tokens_per_pass",
        "expected_low",
        "expected_high",
        "alpha",
        "gamma",
        "iid_tokens_per_pass",
        "passes",
        "drafted",
        "accepted",
        "accepted_over_drafted",
    )
    for check in checks:
        numbers = {key: check.params[key] for key in keys if key in check.params}
        if numbers:
            rows.setdefault(str(check.params["scenario"]), {}).update(numbers)
    return rows
