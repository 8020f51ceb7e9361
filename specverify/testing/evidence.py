"""What was found about one implementation: gathered once, read by every check."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

from specverify.audit.config import AuditConfig, Budget
from specverify.audit.forms import Form, Framework
from specverify.audit.run import audit
from specverify.audit.targets import Target, resolve
from specverify.errors import UnsupportedRandomness
from specverify.exact.tape import ReplayDivergence
from specverify.results import AuditResult, Verdict
from specverify.testing.enumeration import Enumeration, Purse, enumerate_cases
from specverify.testing.naming import display_name
from specverify.testing.options import Options

__all__ = ["Evidence"]

_ALLOWED_TV = 0.05
_CONTRACT_CALLS = 600


class Evidence:
    """Exact laws where the code can be traced, else an audit by samples.

    Args:
        implementation: The callable.
        options: Settings.
        next_level: False-alarm level of the audit by samples; asked for when there is one.
    """

    def __init__(
        self,
        implementation: Callable[..., Any],
        options: Options,
        next_level: Callable[[], float],
    ) -> None:
        self.implementation = implementation
        self.options = options
        self.purse = Purse(options.limits)
        self.why_statistical: str | None = None
        self.level: float | None = None
        self._next_level = next_level

    @cached_property
    def target(self) -> Target:
        """The implementation, and how to call it."""
        framework = self.options.framework
        form = Form(self.options.form)
        chosen = None if framework is None else Framework(framework)
        return resolve(self.implementation, form=form, framework=chosen)

    @cached_property
    def law(self) -> Enumeration | AuditResult:
        """The law, exactly or by samples; ``why_statistical`` says why not exactly.

        Raises:
            UnsupportedRandomness: In exact mode, where the code cannot be traced.
            ReplayDivergence: In exact mode, where it keeps state.
        """
        if self.options.mode == "statistical":
            self.why_statistical = "asked for"
            return self._audit()
        try:
            found = enumerate_cases(self.target, self.options, self.purse)
        except (UnsupportedRandomness, ReplayDivergence) as error:
            if self.options.mode == "exact":
                raise
            self.why_statistical = f"cannot be traced: {error}"
            return self._audit()
        if found.open and not found.failed and self.options.mode == "auto":
            self.why_statistical = f"budget ended within {found.open[0].name}"
            return self._audit()
        return found

    @cached_property
    def contract(self) -> AuditResult:
        """A short run that looks at the interface: kinds of tokens, mutation, seeds."""
        return self._run(
            AuditConfig(
                checks=("interface", "reproducible"),
                gammas=self.options.gammas,
                budget=Budget(calls=_CONTRACT_CALLS),
                **self._settings(),
            )
        )

    def record(self, check: str, verdict: Verdict) -> dict[str, Any]:
        """Entry of a check for the report of a pytest run.

        Args:
            check: Name of the check.
            verdict: Its outcome.
        """
        return {
            "implementation": display_name(self.implementation),
            "check": check,
            "verdict": str(verdict),
            "mode": "exact" if self.why_statistical is None else "statistical",
            "why_statistical": self.why_statistical,
            "false_alarm": self.level,
            "seed": self.options.seed,
        }

    def _audit(self) -> AuditResult:
        self.level = self._next_level()
        return self._run(
            AuditConfig(
                tv=self.options.tolerance or _ALLOWED_TV,
                gammas=self.options.gammas,
                budget=None if self.options.budget is None else self.options.limits,
                false_alarm=self.level,
                **self._settings(),
            )
        )

    def _run(self, config: AuditConfig) -> AuditResult:
        return audit(self.target.implementation, config=config, seed=self.options.seed)

    def _settings(self) -> dict[str, Any]:
        return {
            "form": Form(self.options.form),
            "framework": self.target.framework,
            "mode": "statistical",
            "isolation": "inline",
        }
