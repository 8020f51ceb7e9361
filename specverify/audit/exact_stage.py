"""Which scenarios an audit traces before it samples, and in which order."""

from __future__ import annotations

import math
from collections.abc import Iterable

from specverify.audit.config import AuditConfig
from specverify.audit.engines import EngineScenario
from specverify.audit.planning import shard_size
from specverify.audit.scenarios import Scenario
from specverify.audit.suites import AnyScenario
from specverify.audit.tracing import paths_expected
from specverify.audit.wire import EXACT_SHARD, SEARCH_SHARD, Task

__all__ = ["exact_batches", "exact_task", "search_task"]

_STEPS = (100, 1_000, math.inf)
"""Paths of the scenarios of a batch: those of the first name a bug together."""

_CONFIRMING, _CONFIRMING_EACH = 3_000, 500
"""Ordinary completions that confirm the traced laws: over all scenarios, and in each at least."""

_CONFIRMING_ENGINE = 240
"""Of an engine, whose completions are slow."""


def exact_batches(scenarios: Iterable[AnyScenario], config: AuditConfig) -> list[list[Task]]:
    """Shards that trace, batch after batch; a failure in one spares the later, dearer ones.

    Args:
        scenarios: What is audited; of an engine, its smallest model is traced.
        config: Mode and the checks that are wanted.
    """
    if config.mode == "statistical":
        return []
    wanted = [s for s in scenarios if config.wants(f"exact[{s.name}]")]
    engines = [s for s in wanted if isinstance(s, EngineScenario) and s.traced]
    if engines:
        return [[exact_task(s, _CONFIRMING_ENGINE) for s in engines]]
    traced = [s for s in wanted if isinstance(s, Scenario)]
    traced.sort(key=paths_expected)
    each = max(_CONFIRMING_EACH, math.ceil(_CONFIRMING / max(1, len(traced))))
    batches: list[list[Task]] = [[] for _ in _STEPS]
    for scenario in traced:
        step = next(i for i, most in enumerate(_STEPS) if paths_expected(scenario) <= most)
        batches[step].append(exact_task(scenario, each))
    return [batch for batch in batches if batch]


def exact_task(scenario: AnyScenario, n: int) -> Task:
    """The shard that traces a scenario, and confirms its law by at least ``n`` completions."""
    whole = math.ceil(n / shard_size(scenario)) * shard_size(scenario)
    return Task(scenario=scenario.name, shard=EXACT_SHARD, n=whole, probe=True)


def search_task(name: str) -> Task:
    """The shard that looks for the smallest case once a scenario has failed."""
    return Task(scenario=name, shard=SEARCH_SHARD, n=0)
