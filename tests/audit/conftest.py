"""Small audits: a few scenarios, a wide bound, in this process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from specverify.audit.config import AuditConfig
from specverify.audit.run import audit
from specverify.results import AuditResult


@pytest.fixture(scope="session")
def small_audit() -> Callable[..., AuditResult]:
    """Sample a callable or engine a little; settings may be overridden, the mode too."""

    def run(target: Any, *, seed: int = 0, **settings: Any) -> AuditResult:
        settings = {"gammas": (2, 3), "tv": 0.1, "isolation": "inline"} | settings
        settings.setdefault("mode", "statistical")
        return audit(target, config=AuditConfig(**settings), seed=seed)

    return run
