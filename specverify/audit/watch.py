"""Whoever watches an audit all the time: asked after every shard whether the law is refuted."""

from __future__ import annotations

import math
from collections.abc import Mapping

from specverify.audit.betting import bets_for, families
from specverify.audit.forms import Form
from specverify.audit.planning import NAMING, Plan
from specverify.audit.suites import AnyScenario
from specverify.audit.tally import Tally

__all__ = ["NAMING_COMPLETIONS", "Watch"]


NAMING_COMPLETIONS = 500
"""An alarm waits until this many completions were drawn of each scenario that tells bugs apart."""

_GROWTH = 1.1
"""Counts are weighed again when they grew by this much: after every shard at first, and at a cost
that stays small beside the sampling of long audits."""


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
        blocks = [s.name for s in scenarios.values() if s.form in (Form.VERIFY, Form.BATCHED)]
        self._unnamed = {name for name in NAMING if name in blocks}
        self._raised = False
        self._next: dict[str, int] = {}

    def alarm(self, name: str, tally: Tally) -> bool:
        """Whether the law of a scenario is refuted at the audit's level, and enough was seen.

        An alarm that comes early is kept until the bug can be told from others.

        Args:
            name: The scenario.
            tally: Everything counted in it so far.
        """
        drawn = _completions(tally)
        if drawn >= NAMING_COMPLETIONS:
            self._unnamed.discard(name)
        if not self._raised and drawn >= self._next.get(name, 0):
            self._next[name] = math.ceil(_GROWTH * drawn)
            self._raised = self._refuted(name, tally)
        return self._raised and not self._unnamed

    def _refuted(self, name: str, tally: Tally) -> bool:
        if name not in self._watched:
            return False
        scenario, wanted = self._watched[name]
        found = bets_for(scenario, tolerance=self._plan.config.tolerance).evidence(tally)
        threshold = self._plan.terms(name, 0).log_e_threshold
        return any(found[family].log_e >= threshold for family in wanted if family in found)

    def _counts(self, family: str, name: str) -> bool:
        check, config = f"{family}[{name}]", self._plan.config
        return config.wants(check) and config.expected_failure(check) is None


def _completions(tally: Tally) -> int:
    """Completions of a scenario; of an engine, calls stand for them."""
    tokens = tally.get("token")
    return tally.total("calls") if tokens is None else int(tokens[0].sum())
