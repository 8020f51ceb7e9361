"""Whoever watches an audit all the time: asked after every shard whether the law is refuted."""

from __future__ import annotations

from collections.abc import Mapping

from specverify.audit.betting import bets_for, families
from specverify.audit.planning import Plan
from specverify.audit.suites import AnyScenario
from specverify.audit.tally import Tally

__all__ = ["Watch"]


class Watch:
    """Looks at the bets of every scenario; they may be looked at whenever somebody wants to.

    Args:
        plan: Levels and settings.
        scenarios: What is sampled, by name.
    """

    def __init__(self, plan: Plan, scenarios: Mapping[str, AnyScenario]) -> None:
        self._plan = plan
        # A distance that was declared is no alarm, and bets on exactness know no other law.
        exact = plan.config.declared_tv is None
        self._watched = {
            name: (scenario, wanted)
            for name, scenario in scenarios.items()
            if exact and (wanted := [f for f in families(scenario) if self._counts(f, name)])
        }

    def alarm(self, name: str, tally: Tally) -> bool:
        """Whether the law of a scenario is refuted at the audit's level.

        Args:
            name: The scenario.
            tally: Everything counted in it so far.
        """
        if name not in self._watched:
            return False
        scenario, wanted = self._watched[name]
        found = bets_for(scenario).evidence(tally)
        threshold = self._plan.terms(name, 0).log_e_threshold
        return any(found[family].log_e >= threshold for family in wanted if family in found)

    def _counts(self, family: str, name: str) -> bool:
        check, config = f"{family}[{name}]", self._plan.config
        return config.wants(check) and config.expected_failure(check) is None
