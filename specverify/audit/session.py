"""Sampling in looks until every scenario is judged, one fails, or the budget ends."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeAlias

from specverify.audit.config import AuditConfig
from specverify.audit.executors import Executor
from specverify.audit.forms import Form
from specverify.audit.judges import judge
from specverify.audit.planning import Plan, make_plan
from specverify.audit.suites import AnyScenario, suite
from specverify.audit.tally import Tally, merge_all
from specverify.audit.terms import LOOKS
from specverify.audit.verdicts import apply_declarations
from specverify.errors import InvalidInputError
from specverify.results import CheckResult, Family, RunStatus, Verdict

__all__ = ["Callback", "Progress", "Session"]


@dataclass(frozen=True, kw_only=True)
class Progress:
    """Where an audit stands; handed to the ``progress`` callback after every shard.

    Attributes:
        stage: ``load``, ``sample`` or ``done``.
        look: Number of the look, from 0.
        done: Completions drawn in it.
        total: Completions planned in it.
        scenario: Scenario of the shard.
    """

    stage: str
    look: int = 0
    done: int = 0
    total: int = 0
    scenario: str = ""


Callback: TypeAlias = Callable[[Progress], None]


class Session:
    """One audit under way.

    Args:
        executor: Runs the shards.
        config: Settings.
        seed: Root seed.
        tell: Told after every shard.

    Raises:
        InvalidInputError: If the settings leave no scenario.
    """

    def __init__(self, executor: Executor, config: AuditConfig, seed: int, tell: Callback) -> None:
        self.config, self.seed = config, seed
        self.target, self.form = executor.target, executor.form
        self._executor, self._tell = executor, tell
        chosen = _chosen(executor, config)
        self.scenarios = {scenario.name: scenario for scenario in chosen}
        self.plan: Plan = make_plan(chosen, config, seed)
        self.tallies: dict[str, Tally] = {}
        self.status = RunStatus.COMPLETE
        self.stopped = ""
        self.started = datetime.now(UTC)
        self._looks: dict[str, int] = {}
        self._clock = time.monotonic()
        self._calls = 0

    def sample(self) -> None:
        """Sample look after look; an interruption keeps everything sampled before it."""
        names = list(self.scenarios)
        for look in range(LOOKS):
            try:
                self._sample_look(names, look)
            except KeyboardInterrupt:
                self.status, self.stopped = RunStatus.INTERRUPTED, "interrupted"
            if self.stopped:
                return
            laws = {name: self._law_verdicts(name) for name in names}
            if any(Verdict.FAIL in verdicts for verdicts in laws.values()):
                self.stopped = "failed"
                return
            names = [name for name in names if Verdict.INCONCLUSIVE in laws[name]]
            if not names:
                return

    def checks(self) -> tuple[CheckResult, ...]:
        """Every check that was asked for, judged at the last look of its scenario."""
        # In the order of the scenarios, not of the workers that happened to end first.
        judged = [check for name in self.scenarios for check in self._judge(name)]
        return apply_declarations(judged, self.config)

    def seconds(self) -> dict[str, float]:
        """Wall-clock seconds, and seconds inside the shards."""
        inside = sum(tally.seconds for tally in self.tallies.values())
        return {"wall": time.monotonic() - self._clock, "sampling": inside}

    def _judge(self, name: str) -> Sequence[CheckResult]:
        # A scenario that was not reached has empty counts: inconclusive, and never left out.
        tally, look = self.tallies.get(name, Tally()), self._looks.get(name, 0)
        checks = judge(self.scenarios[name], tally, self.plan, look)
        return [check for check in checks if self.config.wants(check.name)]

    def _law_verdicts(self, name: str) -> set[Verdict]:
        checks = apply_declarations(self._judge(name), self.config)
        return {check.verdict for check in checks if check.family is Family.LAW}

    def _sample_look(self, names: Sequence[str], look: int) -> None:
        tasks = self.plan.tasks(names, look)
        total, done = sum(task.n for task in tasks), 0
        parts: dict[str, dict[int, Tally]] = {}
        try:
            for task, tally in self._executor.run(tasks):
                parts.setdefault(task.scenario, {})[task.shard] = tally
                done += task.n
                self._calls += tally.total("calls")
                self._tell(
                    Progress(
                        stage="sample", look=look, done=done, total=total, scenario=task.scenario
                    )
                )
                self.stopped = self._reason_to_stop(tally)
                if self.stopped:
                    break
        finally:
            self._keep(parts, look)

    def _keep(self, parts: dict[str, dict[int, Tally]], look: int) -> None:
        for name, shards in parts.items():
            # In the order of their numbers: which worker was faster must not matter.
            ordered = [shards[number] for number in sorted(shards)]
            earlier = [self.tallies[name]] if name in self.tallies else []
            self.tallies[name] = merge_all([*earlier, *ordered])
            self._looks[name] = look

    def _reason_to_stop(self, tally: Tally) -> str:
        if tally.error is not None:
            return "error"
        budget = self.config.budget
        if budget is None:
            return ""
        late = budget.seconds is not None and time.monotonic() - self._clock >= budget.seconds
        spent = budget.calls is not None and self._calls >= budget.calls
        return "budget" if late or spent else ""


def _chosen(executor: Executor, config: AuditConfig) -> list[AnyScenario]:
    found = suite(executor.form, config.scenarios)
    if executor.form is Form.GENERATE:
        return list(found)  # an engine has a block size of its own
    chosen = [s for s in found if config.gammas is None or s.gamma in config.gammas]
    if not chosen:
        known = ", ".join(str(gamma) for gamma in sorted({s.gamma for s in found}))
        raise InvalidInputError("gammas", f"no scenario has {config.gammas}; there are {known}")
    return chosen
