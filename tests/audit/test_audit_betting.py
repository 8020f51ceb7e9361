"""Bets from counts: calibrated at every look, quick on known bugs and on unknown ones.

The level of the calibration is 0.05 an audit; that of the other tests 1e-6. Seeds are fixed.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from specverify.audit.alternatives import known_paths, known_rows
from specverify.audit.betting import JOINT, TOKEN, bets_for
from specverify.audit.blocks import BlockSampler
from specverify.audit.chains import path_law
from specverify.audit.config import AuditConfig
from specverify.audit.counting import count_completions
from specverify.audit.forms import Form, Framework
from specverify.audit.observer import InlineWatch
from specverify.audit.planning import make_plan
from specverify.audit.scenarios import find
from specverify.audit.tally import Tally
from specverify.audit.targets import resolve
from specverify.audit.watch import NAMING_COMPLETIONS, Watch
from specverify.bugs import ZOO

LEVEL = 0.05
SMALL = ("smallest", "zeros-in-draft", "markov")


def completions(scenario, n, rng, *, tilt=0.0):
    """Completions of the target; with ``tilt`` their first token leans to the likeliest."""
    chain = scenario.chain
    before = np.full(n, chain.start)
    drawn = []
    for position in range(scenario.length):
        rows = chain.target[position][before if chain.contexts > 1 else np.zeros(n, dtype=int)]
        if not position and tilt:
            rows = (1 - tilt) * rows + tilt * np.eye(rows.shape[1])[rows.argmax(axis=1)]
        edges = rows.cumsum(axis=1)
        before = (edges < (rng.random(n) * edges[:, -1])[:, None]).sum(axis=1)
        drawn.append(before)
    return np.column_stack(drawn).tolist()


def watched(seed: int, *, tilt: float = 0.0, shards: int = 3) -> bool:
    """Whether an audit of three scenarios raises an alarm, asked after every shard."""
    scenarios = {name: find(Form.VERIFY, name) for name in SMALL}
    plan = make_plan(list(scenarios.values()), AuditConfig(false_alarm=LEVEL), 0)
    watch, rng = Watch(plan, scenarios), np.random.default_rng(seed)
    tallies = {name: Tally() for name in scenarios}
    alarm = False
    for _ in range(shards):
        for name, scenario in scenarios.items():
            count_completions(tallies[name], scenario, completions(scenario, 250, rng, tilt=tilt))
            alarm = watch.alarm(name, tallies[name]) or alarm
    return alarm


def test_right_audits_raise_few_alarms() -> None:
    audits = 60
    alarms = sum(watched(seed) for seed in range(audits))
    assert stats.binomtest(alarms, audits, LEVEL, alternative="greater").pvalue > 1e-3


def test_wrong_ones_raise_one() -> None:
    """The negative control: the same audits of a law that is off by a tenth at one position."""
    assert sum(watched(seed, tilt=0.25) for seed in range(6)) == 6


def test_a_bet_is_fair() -> None:
    """The mean of the e-value over every outcome of one completion is one."""
    scenario = find(Form.VERIFY, "smallest")
    law, bets = path_law(scenario.chain, scenario.length), bets_for(scenario)
    mean = {TOKEN: 0.0, JOINT: 0.0}
    for path, probability in enumerate(law):
        tokens = np.unravel_index(path, (scenario.vocab_size,) * scenario.length)
        tally = Tally()
        count_completions(tally, scenario, [[int(token) for token in tokens]])
        for family, evidence in bets.evidence(tally).items():
            mean[family] += probability * np.exp(evidence.log_e)
    assert mean[TOKEN] == pytest.approx(1.0, abs=1e-9)
    assert mean[JOINT] == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize("name", ["zeros-in-draft", "cold", "markov"])
def test_known_laws_are_those_of_the_bugs(name) -> None:
    """Against 4,000 completions that the sampler drew of the bug itself, at 1e-6."""
    scenario = find(Form.VERIFY, name)
    bug = "reused_uniform" if name == "cold" else "draft_row_off"
    target = resolve(ZOO[bug].callable, form=Form.VERIFY, framework=Framework.NUMPY)
    sampler = BlockSampler(target, scenario, InlineWatch(10))
    tally = sampler.run(4000, np.random.SeedSequence(5))
    law = known_paths(scenario)[bug]
    often = law * 4000 >= 5
    observed = np.append(tally.arrays["path"][often], tally.arrays["path"][~often].sum())
    expected = 4000 * np.append(law[often], law[~often].sum())
    kept = expected > 0
    test = stats.chisquare(observed[kept], expected[kept])
    assert test.pvalue > 1e-6
    right = 4000 * path_law(scenario.chain, scenario.length)
    wrong = np.sum((tally.arrays["path"] - right) ** 2 / np.maximum(right, 1e-9))
    assert stats.chi2.sf(wrong, len(right) - 1) < 1e-6, "the negative control"


def test_rows_of_a_bug_are_marginals_of_its_paths() -> None:
    scenario = find(Form.VERIFY, "cold")
    rows, shape = known_rows(scenario), (scenario.vocab_size,) * scenario.length
    paths = known_paths(scenario)
    assert "draft_row_off" in rows.keys() <= paths.keys()
    for bug, marginals in rows.items():
        law = paths[bug].reshape(shape)
        assert marginals[0, 0] == pytest.approx(law.sum(axis=(1, 2)))
        assert marginals[2, 0] == pytest.approx(law.sum(axis=(0, 1)))


def test_a_known_bug_has_the_largest_share_at_once() -> None:
    scenario = find(Form.VERIFY, "vocab-1024")
    target = resolve(ZOO["abs_residual"].callable, form=Form.VERIFY, framework=Framework.NUMPY)
    tally = BlockSampler(target, scenario, InlineWatch(10)).run(500, np.random.SeedSequence(2))
    evidence = bets_for(scenario).evidence(tally)[TOKEN]
    assert evidence.log_e > np.log(1e6)
    assert max(evidence.shares, key=evidence.shares.__getitem__) == "abs_residual"


def test_laws_that_are_off_by_the_tolerance_are_forgiven() -> None:
    scenario = find(Form.VERIFY, "zeros-in-draft")
    tally, rng = Tally(), np.random.default_rng(3)
    for _ in range(20):
        drawn = completions(scenario, 1000, rng, tilt=0.12)
        count_completions(tally, scenario, drawn)
    strict = bets_for(scenario).evidence(tally)
    lenient = bets_for(scenario, tolerance=0.1).evidence(tally)
    assert strict[TOKEN].log_e > np.log(1e6) > np.log(20) > lenient[TOKEN].log_e


def test_an_alarm_waits_for_a_name() -> None:
    names = ("zeros-in-draft", "smallest", "mixed")
    scenarios = {name: find(Form.VERIFY, name) for name in names}
    watch = Watch(make_plan(list(scenarios.values()), AuditConfig(), 0), scenarios)
    rng, tally = np.random.default_rng(0), Tally()
    first, second = scenarios["zeros-in-draft"], scenarios["smallest"]
    count_completions(tally, first, completions(first, NAMING_COMPLETIONS, rng, tilt=0.9))
    assert not watch.alarm("zeros-in-draft", tally)
    right = Tally()
    count_completions(right, second, completions(second, NAMING_COMPLETIONS, rng))
    assert watch.alarm("smallest", right)


@pytest.mark.parametrize(
    "settings",
    [
        {"declare": "lossy:0.9"},
        {"checks": ("joint[smallest]",)},
        {"expected_failures": {"token": "known", "joint": "known"}},
    ],
)
def test_what_is_declared_raises_no_alarm(settings) -> None:
    scenario = find(Form.VERIFY, "zeros-in-draft")
    watch = Watch(make_plan([scenario], AuditConfig(**settings), 0), {scenario.name: scenario})
    tally = Tally()
    rng = np.random.default_rng(0)
    count_completions(tally, scenario, completions(scenario, 1000, rng, tilt=0.9))
    assert not watch.alarm(scenario.name, tally)
