"""How many completions each look takes, and how the level is shared: fixed before sampling."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from specverify.audit.betting import families
from specverify.audit.cells import token_cells
from specverify.audit.chains import marginals
from specverify.audit.checks import efficiency, joint, token, transform
from specverify.audit.config import AuditConfig
from specverify.audit.engines import BINS, EngineScenario
from specverify.audit.scenarios import Scenario
from specverify.audit.suites import AnyScenario
from specverify.audit.terms import BETTING_SHARE, LOOKS, Terms
from specverify.audit.wire import Task
from specverify.stats.tails import chi2_isf, noncentrality_at

__all__ = ["COARSE_TV", "ENGINE_SHARD", "NAMING", "SHARD", "Plan", "make_plan", "shard_size"]

NAMING = ("zeros-in-draft", "cold", "smallest", "zeros-in-target")
"""Scenarios of blocks whose laws tell the known bugs apart best."""

SHARD = 250
"""Completions of one shard of blocks or decodes."""

ENGINE_SHARD = 24
"""Completions of one shard of an engine."""

COARSE_TV = 0.05
"""What the total variation of a coarse scenario must be bounded by."""

_FIRST_LOOK = 750
_FIRST_ENGINE_LOOK = 96
_SLOW_VOCAB = 10_000
_GROWTH = (1.2, 1.7, 3.0)
_FLOOR_SHARDS = (0, 10, 30)
"""However lax the bound: a scenario still open at the late looks is suspicious."""
_CONFIDENCE = 0.95
_BOUNDING_LOOKS = LOOKS - 1
"""The first look is for gross bugs: no bound on the distance is claimed from it."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Completions by scenario and look, and the terms that go with them.

    Attributes:
        looks: Cumulative completions of each look, by scenario.
        tv: Largest total variation that a pass may leave open, by scenario.
        shards: Completions of one shard, by scenario.
        law_tests: Tests that share the law's false-alarm level at the fixed looks.
        law_bets: E-values that share the law's false-alarm level after every shard.
        efficiency_tests: Tests that share the efficiency's at the fixed looks.
        efficiency_bets: E-values that share it after every shard.
        config: Settings.
        seed: Root seed.
    """

    looks: dict[str, tuple[int, ...]]
    tv: dict[str, float]
    shards: dict[str, int]
    law_tests: int
    law_bets: int
    efficiency_tests: int
    efficiency_bets: int
    config: AuditConfig
    seed: int

    def terms(self, name: str, look: int, *, efficiency: bool = False) -> Terms:
        """Terms of one scenario at one look."""
        bounds = len(self.looks) * _BOUNDING_LOOKS
        return Terms(
            n=self.looks[name][look],
            tests=self.efficiency_tests if efficiency else self.law_tests,
            bets=self.efficiency_bets if efficiency else self.law_bets,
            false_alarm=self.config.false_alarm,
            confidence=1 - (1 - _CONFIDENCE) / bounds,
            power=self.config.power,
            tv=self.tv[name],
            seed=self.seed,
            tolerance=self.config.tolerance,
        )

    def tasks(self, names: Sequence[str], look: int) -> list[Task]:
        """Shards of one look; scenarios take turns, so that a budget ends them alike."""
        shards = [task for name in names for task in self._shards(name, look)]
        # Those that tell bugs apart begin: a gross bug raises the alarm there, and has a name.
        return sorted(shards, key=lambda t: (look > 0 or t.scenario not in NAMING, t.shard))

    def error_budget(self) -> dict[str, Any]:
        """How the level was shared, for ``result.json``."""
        looked = self.config.false_alarm * (1 - BETTING_SHARE)
        return {
            "false_alarm": self.config.false_alarm,
            "method": "Bonferroni over checks and looks, fixed before sampling; p-values are "
            "finite-sample bounds, e-values hold after every shard",
            "law_tests": self.law_tests,
            "level_per_law_test": looked / self.law_tests,
            "law_bets": self.law_bets,
            "level_per_law_bet": self.config.false_alarm * BETTING_SHARE / self.law_bets,
            "efficiency_tests": self.efficiency_tests,
            "level_per_efficiency_test": looked / self.efficiency_tests,
            "efficiency_bets": self.efficiency_bets,
            "level_per_efficiency_bet": self.config.false_alarm
            * BETTING_SHARE
            / self.efficiency_bets,
            "tolerance": self.config.tolerance,
            "looks": LOOKS,
            "tv_confidence": _CONFIDENCE,
            "tv_bounds": len(self.looks) * _BOUNDING_LOOKS,
        }

    def _shards(self, name: str, look: int) -> list[Task]:
        before = self.looks[name][look - 1] if look else 0
        size = self.shards[name]
        first = before // size
        count = (self.looks[name][look] - before) // size
        return [
            Task(scenario=name, shard=first + i, n=size, probe=first + i == 0) for i in range(count)
        ]


def make_plan(scenarios: Sequence[AnyScenario], config: AuditConfig, seed: int) -> Plan:
    """Plan the looks: a short one for gross bugs, then what the bound on the distance needs."""
    confidence = 1 - (1 - _CONFIDENCE) / (len(scenarios) * _BOUNDING_LOOKS)
    lax = max(COARSE_TV, config.tv)
    tv = {s.name: lax if s.coarse and not config.strict else config.tv for s in scenarios}
    looks = {s.name: _looks(s, tv[s.name], confidence) for s in scenarios}
    return Plan(
        looks=looks,
        tv=tv,
        shards={s.name: shard_size(s) for s in scenarios},
        law_tests=sum(_law_tests(s) for s in scenarios) * LOOKS,
        law_bets=sum(len(families(s)) for s in scenarios),
        efficiency_tests=sum(_efficiency_tests(s) for s in scenarios) * LOOKS,
        efficiency_bets=max(1, sum(isinstance(s, Scenario) for s in scenarios)),
        config=config,
        seed=seed,
    )


def _law_tests(scenario: AnyScenario) -> int:
    if isinstance(scenario, EngineScenario):
        return transform.LAW_TESTS
    return token.tests(scenario) + (joint.tests(scenario) if joint.applies(scenario) else 0)


def _efficiency_tests(scenario: AnyScenario) -> int:
    if isinstance(scenario, EngineScenario):
        return transform.EFFICIENCY_TESTS
    return efficiency.tests(scenario)


def _looks(scenario: AnyScenario, tv: float, confidence: float) -> tuple[int, ...]:
    shard = shard_size(scenario)
    if isinstance(scenario, EngineScenario):
        needed = math.ceil(_noncentrality(BINS - 1, confidence) / (4 * tv**2 * scenario.length))
        first = min(_FIRST_ENGINE_LOOK, needed)
    else:
        needed = _needed(scenario, tv, confidence)
        first = min(_FIRST_LOOK if scenario.vocab_size < _SLOW_VOCAB else shard, needed)
    looks = [_round(first, shard)]
    for growth, floor in zip(_GROWTH, _FLOOR_SHARDS, strict=True):
        looks.append(max(looks[-1] + shard, floor * shard, _round(growth * needed, shard)))
    if isinstance(scenario, EngineScenario) and scenario.available is not None:
        # What is on record costs nothing more: one look at all of it.
        looks = [_round(scenario.available, shard)] * LOOKS
    return tuple(looks)


def shard_size(scenario: AnyScenario) -> int:
    """Completions of one shard: small where each is slow."""
    if isinstance(scenario, EngineScenario) and scenario.available is not None:
        return SHARD
    return ENGINE_SHARD if isinstance(scenario, EngineScenario) else SHARD


def _needed(scenario: Scenario, tv: float, confidence: float) -> int:
    """Completions at which a correct implementation's bound falls under ``tv`` half the time."""
    n = 5_000
    for _ in range(3):  # the cells grow with n, and n with the cells
        expected = n * marginals(scenario.chain, scenario.length)
        dof = 0
        for position in range(scenario.length):
            for context in np.flatnonzero(expected[position]):
                target = scenario.chain.target[position, context]
                draft = scenario.chain.draft[position, context]
                dof += int(token_cells(target, draft, expected[position, context]).max())
        n = math.ceil(_noncentrality(dof, confidence) / (4 * tv**2 * scenario.length))
    return n


def _noncentrality(dof: int, confidence: float) -> float:
    if dof == 0:
        return 0.0
    return noncentrality_at(1 - confidence, chi2_isf(0.5, dof), dof)


def _round(n: float, shard: int) -> int:
    return max(1, math.ceil(n / shard)) * shard
