"""What a plan asks of its scenarios."""

from __future__ import annotations

import pytest

from specverify.audit.config import AuditConfig
from specverify.audit.engines import EngineScenario
from specverify.audit.explanations import EXPLANATIONS
from specverify.audit.forms import Form
from specverify.audit.planning import COARSE_TV, SHARD, make_plan
from specverify.audit.scenarios import find
from specverify.audit.suites import suite


def test_a_strict_audit_holds_coarse_scenarios_to_the_same_bound() -> None:
    scenarios = suite(Form.VERIFY, "default")
    coarse = {scenario.name for scenario in scenarios if scenario.coarse}
    lax = make_plan(scenarios, AuditConfig(tv=0.01), 0)
    strict = make_plan(scenarios, AuditConfig(tv=0.01, strict=True), 0)
    assert coarse
    assert {name for name, tv in lax.tv.items() if tv == COARSE_TV} == coarse
    assert set(strict.tv.values()) == {0.01}
    longer = {name for name, looks in strict.looks.items() if looks[-1] > lax.looks[name][-1]}
    assert coarse - longer == {"one-hot"}  # one cell: nothing is left to bound
    assert longer <= coarse


def test_every_test_of_every_look_has_its_share_of_the_level() -> None:
    """By hand: three positions of "zeros-in-draft" and 125 completions; "one-hot" likewise; the
    eight pairs of neighbours of "long-block"; four looks, five schemes, and bets after each shard.
    """
    names = ("zeros-in-draft", "one-hot", "long-block")
    plan = make_plan([find(Form.VERIFY, name) for name in names], AuditConfig(tolerance=0.01), 7)
    law = (2 + 1) + (2 + 1) + (2 + 8)
    assert (plan.law_tests, plan.law_bets) == (4 * law, 3 * 2)
    assert (plan.efficiency_tests, plan.efficiency_bets) == (4 * 3 * (2 + 5), 3)
    of_law, of_speed = (plan.terms("one-hot", 1, efficiency=speed) for speed in (False, True))
    assert (of_law.tests, of_law.bets) == (plan.law_tests, plan.law_bets)
    assert (of_speed.tests, of_speed.bets) == (plan.efficiency_tests, plan.efficiency_bets)
    assert of_law.level * of_law.tests == pytest.approx(of_law.false_alarm / 2)
    # Three looks bound the distance in each scenario; all bounds hold together at 95 %.
    assert (1 - of_law.confidence) * 3 * 3 == pytest.approx(0.05)
    assert (of_law.n, of_law.tolerance, of_law.seed) == (plan.looks["one-hot"][1], 0.01, 7)


def test_every_test_of_an_engine_has_its_share_of_the_level() -> None:
    """Three orders of tokens pooled, by position and in pairs, and every explanation of passes."""
    engine = EngineScenario(name="plain", purpose="by hand", length=4)
    plan = make_plan([engine], AuditConfig(), 0)
    assert (plan.law_tests, plan.efficiency_tests) == (4 * 9, 4 * len(EXPLANATIONS))


def test_looks_take_shards_that_none_took_before() -> None:
    """Each has a random seed of its own, by its number: one drawn twice would count twice."""
    plan = make_plan(suite(Form.VERIFY, "default"), AuditConfig(tv=0.02), 0)
    names = list(plan.looks)
    seen: dict[str, list[int]] = {name: [] for name in names}
    for look in range(4):
        tasks = plan.tasks(names, look)
        assert {task.n for task in tasks} == {SHARD}
        for name in names:
            seen[name] += sorted(task.shard for task in tasks if task.scenario == name)
            assert seen[name] == list(range(plan.looks[name][look] // SHARD))
        assert all(task.probe == (task.shard == 0) for task in tasks)
