"""How bets are put together: products where places are apart, averages where they share tokens.

Means over every outcome are exact; the alarms are those of an audit at 1e-6. Seeds are fixed.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from specverify.audit import counting
from specverify.audit.arms import count_arms
from specverify.audit.betting import JOINT, TOKEN, averaged, bets_for, together
from specverify.audit.chains import path_law
from specverify.audit.config import AuditConfig
from specverify.audit.counting import count_completions
from specverify.audit.engines import BINS, ORDERS, PAIR_BINS, EngineScenario
from specverify.audit.forms import Form
from specverify.audit.planning import make_plan
from specverify.audit.scenarios import Scenario, find
from specverify.audit.tally import Tally
from specverify.audit.watch import Watch
from specverify.stats.context import ContextBets, Evidence
from specverify.stats.multiplicity import average_log_e

ENGINE = EngineScenario(name="plain", purpose="by hand", length=2)


def worth(e_value: float) -> Evidence:
    return Evidence(log_e=math.log(e_value), n=5, impossible=1, shares={})


def test_places_multiply_half_of_their_money_and_share_tokens_by_their_mean() -> None:
    """Of 4 and 1/4: (0.5 + 2)(0.5 + 0.125) and 2.125 have the mean 1.84375."""
    seen = [worth(4.0), worth(0.25)]
    product = together(seen)
    assert math.exp(product.log_e) == pytest.approx((2.5 * 0.625 + 2.125) / 2)
    assert math.exp(averaged(seen).log_e) == pytest.approx(2.125)
    assert (product.n, product.impossible) == (10, 2)
    assert together([]).log_e == 0.0


def means(scenario: Scenario) -> dict[str, float]:
    """Mean of each family's e-value over every completion, one drawn."""
    law, bets = path_law(scenario.chain, scenario.length), bets_for(scenario)
    mean = {TOKEN: 0.0, JOINT: 0.0}
    for path in np.flatnonzero(law):
        shape = (scenario.vocab_size,) * scenario.length
        tally = Tally()
        count_completions(tally, scenario, [[int(t) for t in np.unravel_index(path, shape)]])
        for family, evidence in bets.evidence(tally).items():
            mean[family] += law[path] * math.exp(evidence.log_e)
    return mean


def test_bets_on_a_chain_are_fair() -> None:
    """Zeros lose what known bugs would put on them; nothing may gain."""
    for family, mean in means(find(Form.VERIFY, "markov")).items():
        assert mean == pytest.approx(1.0, abs=1e-9), family


def test_bets_on_pairs_are_fair(monkeypatch) -> None:
    """Neighbouring pairs share a token: their bets have a mean, and no product."""
    monkeypatch.setattr(counting, "MAX_PATHS", 10)
    scenario = replace(find(Form.VERIFY, "markov"), name="markov in pairs")
    assert means(scenario)[JOINT] == pytest.approx(1.0, abs=1e-9)


def drawn(scenario: Scenario, n: int, *, tilt: float = 0.0) -> np.ndarray:
    """Completions of independent tokens; with ``tilt`` the first leans to the likeliest."""
    rng, rows = np.random.default_rng(2), scenario.chain.target[: scenario.length, 0].copy()
    rows[0] = (1 - tilt) * rows[0] + tilt * np.eye(rows.shape[1])[rows[0].argmax()]
    return np.column_stack([rng.choice(rows.shape[1], size=n, p=row) for row in rows])


def counted(scenario: Scenario, tokens: np.ndarray) -> Tally:
    tally = Tally()
    count_completions(tally, scenario, tokens.tolist())
    return tally


def test_half_of_the_money_is_on_what_nobody_knows() -> None:
    scenario = find(Form.VERIFY, "zeros-in-draft")
    tally = counted(scenario, drawn(scenario, 1000, tilt=0.25))
    chain, counts = scenario.chain, tally.arrays["token"]
    places = list(itertools.product(range(scenario.length), range(chain.contexts)))
    bets = [ContextBets(chain.target[place], chain.draft[place]) for place in places]
    unknown = together(
        [bet.evidence(counts[place]) for bet, place in zip(bets, places, strict=True)]
    )
    found = bets_for(scenario).evidence(tally)[TOKEN].log_e
    assert unknown.log_e > math.log(1e6)
    assert found >= unknown.log_e - math.log(2) - 1e-9


def alarmed(tokens: np.ndarray, **settings: float) -> bool:
    scenario = find(Form.VERIFY, "zeros-in-draft")
    plan = make_plan([scenario], AuditConfig(**settings), 0)
    return Watch(plan, {scenario.name: scenario}).alarm(scenario.name, counted(scenario, tokens))


def test_whoever_watches_asks_every_family() -> None:
    """Tokens that are tied to each other keep their own laws."""
    tokens = drawn(find(Form.VERIFY, "zeros-in-draft"), 1000)
    assert not alarmed(tokens)
    tokens[:, 0], tokens[:, 1] = np.sort(tokens[:, 0]), np.sort(tokens[:, 1])
    assert alarmed(tokens)


def test_whoever_watches_forgives_what_is_forgiven() -> None:
    tokens = drawn(find(Form.VERIFY, "zeros-in-draft"), 3000, tilt=0.12)
    assert alarmed(tokens)
    assert not alarmed(tokens, tolerance=0.1)


def transforms() -> Tally:
    """The same uneven transforms in every order, whose bets then share all tokens."""
    tally = Tally()
    table = tally.table("transform", (ENGINE.length, len(ORDERS), BINS))
    table[...] = np.random.default_rng(0).multinomial(300, np.full(BINS, 1 / BINS), size=(2, 1))
    table[1, :, 0] += 40
    pairs = tally.table("transform-pairs", (len(ORDERS), PAIR_BINS, PAIR_BINS))
    pairs[...] = 500 * np.eye(PAIR_BINS, dtype=np.int64)
    return tally


def test_orders_of_an_engine_share_their_tokens() -> None:
    tally, cells = transforms(), ContextBets(np.full(BINS, 1 / BINS))
    table = tally.arrays["transform"][:, 0]
    pooled, apart = cells.evidence(table.sum(axis=0)), [cells.evidence(row) for row in table]
    expected = average_log_e([pooled.log_e, together(apart).log_e])
    found = bets_for(ENGINE).evidence(tally)
    assert found[TOKEN].log_e == pytest.approx(expected)
    assert found[JOINT].log_e > math.log(1e6)


def test_an_engines_tolerance_leaves_no_bet_that_knows_none() -> None:
    """Neither pairs, nor impossible tokens, nor two samples prove anything then."""
    tally, two_samples = transforms(), Tally()
    tally.table("impossible", (1,))[0] = 1
    strict, lenient = (bets_for(ENGINE, tolerance=t).evidence(tally) for t in (0.0, 0.05))
    assert (strict[TOKEN].log_e, strict[TOKEN].impossible) == (math.inf, 1)
    assert lenient[TOKEN].log_e < math.log(1e6)
    assert lenient[JOINT].log_e == 0.0
    unequal = np.zeros((40, ENGINE.length), dtype=np.int64), np.ones((40, ENGINE.length), int)
    for seed in range(3):
        count_arms(two_samples, seed, (0, 1), unequal)
    strict, lenient = (bets_for(ENGINE, tolerance=t).evidence(two_samples) for t in (0.0, 0.05))
    assert strict[TOKEN].log_e > math.log(1e6)
    assert lenient[TOKEN].log_e == 0.0
