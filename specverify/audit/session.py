"""Tracing, then sampling in looks until every scenario is judged, one fails, or the budget ends."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime
from functools import cached_property

from msgspec.structs import replace

from specverify.audit.config import AuditConfig
from specverify.audit.engines import SMALLEST
from specverify.audit.exact_stage import exact_batches, exact_task, search_task
from specverify.audit.executors import Executor
from specverify.audit.forms import Form
from specverify.audit.judges import judge, settled
from specverify.audit.ledger import Record, Unrecorded
from specverify.audit.order import Finished, in_order
from specverify.audit.planning import Plan, make_plan
from specverify.audit.progress import Callback, Progress
from specverify.audit.recordings import recorded_scenarios
from specverify.audit.suites import AnyScenario, suite
from specverify.audit.tally import Tally, merge_all
from specverify.audit.terms import LOOKS
from specverify.audit.verdicts import apply_declarations
from specverify.audit.watch import Watch
from specverify.audit.wire import Task
from specverify.audit.withdrawing import withdrawn
from specverify.errors import InvalidInputError
from specverify.results import CheckResult, Family, RunStatus, Verdict

__all__ = ["Session"]


class Session:
    """One audit under way.

    Args:
        executor: Runs the shards.
        config: Settings.
        seed: Root seed.
        tell: Told after every shard.
        record: Where finished shards are kept and found again.

    Raises:
        InvalidInputError: If the settings leave no scenario.
    """

    def __init__(
        self,
        executor: Executor,
        config: AuditConfig,
        seed: int,
        tell: Callback,
        *,
        record: Record | None = None,
    ) -> None:
        config = _with_tolerance(config, executor)
        self.config, self.seed = config, seed
        self.target, self.form = executor.target, executor.form
        self._executor, self._tell = executor, tell
        chosen = _chosen(executor, config)
        self.scenarios = {scenario.name: scenario for scenario in chosen}
        self.record: Record = Unrecorded() if record is None else record
        self.tallies: dict[str, Tally] = {}
        self.status = RunStatus.COMPLETE
        self.stopped = ""
        self.started = datetime.now(UTC)
        self._looks: dict[str, int] = {}
        self._shards: dict[str, int] = {}
        self._traced: dict[str, int] = {}
        self._spent = max((done.arrived for done in self.record.found), default=0.0)
        self._clock = time.monotonic()
        self._calls = 0

    @cached_property
    def plan(self) -> Plan:
        """The looks; worked out while the workers trace."""
        return make_plan(list(self.scenarios.values()), self.config, self.seed)

    @cached_property
    def _watch(self) -> Watch:
        return Watch(self.plan, self.scenarios)

    def sample(self) -> None:
        """Sample look after look; an interruption keeps everything sampled before it."""
        try:
            self._sample_looks()
        except KeyboardInterrupt:
            self.status, self.stopped = RunStatus.INTERRUPTED, "interrupted"

    def sample_again(
        self, name: str, look: int, shards: int, *, exact: int = 0, search: bool = False
    ) -> None:
        """Sample the first shards of one scenario, as an earlier run did.

        Args:
            name: The scenario.
            look: The look that they reached.
            shards: How many.
            exact: Completions that confirmed its traced law; 0 where it was not traced.
            search: Whether the smallest case was looked for.
        """
        tasks = [task for number in range(look + 1) for task in self.plan.tasks([name], number)]
        traced = [exact_task(self.scenarios[name], exact)] if exact else []
        again = [*traced, *([search_task(name)] if search else []), *tasks[:shards]]
        for finished in in_order(self._executor, again, self.record, self._elapsed):
            self._count(finished, look)

    def checks(self) -> tuple[CheckResult, ...]:
        """Every check that was asked for, judged at the last look of its scenario."""
        # In the order of the scenarios, not of the workers that happened to end first.
        judged = [check for name in self.scenarios for check in self._judge(name)]
        return apply_declarations(judged, self.config)

    def seconds(self) -> dict[str, float]:
        """Wall-clock seconds, and seconds inside the shards."""
        inside = sum(tally.seconds for tally in self.tallies.values())
        return {"wall": self._elapsed(), "sampling": inside}

    def _elapsed(self) -> float:
        """Seconds of sampling, those of earlier runs included."""
        return self._spent + time.monotonic() - self._clock

    def _trace(self) -> list[str]:
        """Trace what can be traced; the scenarios whose law needs samples yet."""
        for tasks in exact_batches(self.scenarios.values(), self.config):
            self._trace_batch(tasks)
            if self.stopped:
                break
        for name, left in withdrawn(self.tallies).items():
            self.tallies[name] = left
            del self._traced[name]
        if self.stopped or self.config.mode == "exact":
            return []
        return [name for name in self.scenarios if not settled(self.tallies.get(name))]

    def _trace_batch(self, tasks: list[Task]) -> None:
        """Trace scenarios; the smallest case of the first that fails is looked for beside them."""
        failed = False
        for name in self._finished(tasks, 0, "trace"):
            wrong = Verdict.FAIL in self._law_verdicts(name)
            if wrong and not failed:
                tasks.append(search_task(name))
            failed = failed or wrong
        if failed:
            self.stopped = self.stopped or "failed"

    def _sample_looks(self) -> None:
        names = self._trace()
        for look in range(LOOKS):
            if not names:
                return
            for _ in self._finished(self.plan.tasks(names, look), look, "sample"):
                pass
            if self.stopped:
                return
            laws = {name: self._law_verdicts(name) for name in names}
            if any(Verdict.FAIL in verdicts for verdicts in laws.values()):
                self.stopped = "failed"
                return
            names = [name for name in names if Verdict.INCONCLUSIVE in laws[name]]

    def _judge(self, name: str) -> Sequence[CheckResult]:
        # A scenario that was not reached has empty counts: inconclusive, and never left out.
        tally, look = self.tallies.get(name, Tally()), self._looks.get(name, 0)
        checks = judge(self.scenarios[name], tally, self.plan, look)
        reached = {"look": look, "shards": self._shards.get(name, 0)}
        reached |= {"exact": self._traced[name]} if name in self._traced else {}
        return [
            replace(check, replay=None if check.replay is None else check.replay | reached)
            for check in checks
            if self.config.wants(check.name)
        ]

    def _law_verdicts(self, name: str) -> set[Verdict]:
        checks = apply_declarations(self._judge(name), self.config)
        return {check.verdict for check in checks if check.family is Family.LAW}

    def _finished(self, tasks: Sequence[Task], look: int, stage: str) -> Iterator[str]:
        """Run shards and count them; the scenario of each, unless it is the last that counts."""
        total, done = sum(task.n for task in tasks), 0
        with closing(in_order(self._executor, tasks, self.record, self._elapsed)) as shards:
            for finished in shards:
                self._count(finished, look)
                done += finished.task.n
                name = finished.task.scenario
                self._tell(Progress(stage=stage, look=look, done=done, total=total, scenario=name))
                self.stopped = self._reason_to_stop(finished)
                if self.stopped:
                    return
                yield name

    def _count(self, finished: Finished, look: int) -> None:
        name = finished.task.scenario
        # A new sum, not the old one changed: an interruption leaves no half-counted shard.
        self.tallies[name] = merge_all([self.tallies.get(name, Tally()), finished.tally])
        if finished.task.exact:
            self._traced.setdefault(name, finished.task.n)
        else:
            self._shards[name] = self._shards.get(name, 0) + 1
        self._looks[name] = look
        self._calls += finished.tally.total("calls")

    def _reason_to_stop(self, finished: Finished) -> str:
        """Why no further shard counts; it depends on this shard and those before it alone."""
        if finished.tally.error is not None:
            return "error"
        name = finished.task.scenario
        if not finished.task.exact and self._watch.alarm(name, self.tallies[name]):
            return "failed"
        budget = self.config.budget
        if budget is None:
            return ""
        late = budget.seconds is not None and finished.arrived >= budget.seconds
        spent = budget.calls is not None and self._calls >= budget.calls
        return "budget" if late or spent else ""


def _with_tolerance(config: AuditConfig, executor: Executor) -> AuditConfig:
    """The settings, with what the engine says of its own arithmetic where that is more."""
    stated = float(executor.target.get("tolerance") or 0.0)
    return dataclasses.replace(config, tolerance=max(config.tolerance, stated))


def _chosen(executor: Executor, config: AuditConfig) -> list[AnyScenario]:
    if "recorded" in executor.target:
        return list(recorded_scenarios(executor.target["recorded"]))
    found = suite(executor.form, config.scenarios)
    if executor.form is Form.GENERATE:
        quick = executor.target.get("quick")  # an engine has a block size of its own
        chosen = [dataclasses.replace(s, coarse=False) if quick else s for s in found]
        longest = executor.target.get("longest")
        if longest is not None:  # one that is slow
            chosen = [dataclasses.replace(s, length=min(s.length, longest)) for s in chosen]
        traced = config.mode != "statistical" and executor.target.get("traceable")
        return [SMALLEST, *chosen] if traced else chosen
    chosen = [s for s in found if config.gammas is None or s.gamma in config.gammas]
    if not chosen:
        known = ", ".join(str(gamma) for gamma in sorted({s.gamma for s in found}))
        asked = ", ".join(map(str, config.gammas or ()))
        raise InvalidInputError("gammas", f"no scenario has blocks of {asked}; there are {known}")
    return chosen
