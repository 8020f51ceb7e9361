"""Alternation, spreads and exponents; every group measures something at its smallest size."""

from __future__ import annotations

import json

import numpy as np
import pytest

from specverify.bench import auditing, simulating, verifiers
from specverify.bench.run import GROUPS, as_markdown, chosen, machine, measured, rows
from specverify.bench.timing import Asked, Measurement, Size, Spread, alternate, exponent, ratio
from specverify.errors import InvalidInputError
from specverify.exact.blocks import check_exact
from specverify.exact.scenario import BlockScenario

QUICK = Size(quick=True)


def test_jobs_alternate_after_a_run_of_each() -> None:
    order: list[str] = []
    ticks = iter(range(100))
    jobs = {name: (lambda name=name: order.append(name)) for name in "ab"}
    found = alternate(jobs, 2, clock=lambda: float(next(ticks)))
    assert order == list("ababab")
    assert found == {"a": [1.0, 1.0], "b": [1.0, 1.0]}


def test_spreads_and_ratios() -> None:
    assert Spread.of([5.0]) == (5.0, 5.0, 5.0, 1)
    assert Spread.of([3.0, 1.0, 2.0, 5.0, 4.0]) == (3.0, 2.0, 4.0, 5)
    assert ratio([2.0, 6.0, 4.0], [1.0, 2.0, 1.0]).median == 3.0


def test_exponents() -> None:
    sizes = [1.0, 2.0, 4.0, 8.0]
    assert exponent(sizes, [3 * size**1.5 for size in sizes]) == pytest.approx(1.5)
    assert exponent(sizes, [7.0] * 4) == pytest.approx(0)


def test_a_missed_mark_is_shown() -> None:
    asked = Asked("ours: at least 3x", "2.0x", False)
    found = Measurement(
        what="w", unit="s", sides={"ours": Spread.of([2.0])}, asked=[asked], note="why"
    )
    record = {"group": "g"} | found.record()
    assert ("asked: ours: at least 3x", "measured: 2.0x: NO") in rows(record)
    content = {"command": "c", "runs": 7, "machine": machine(), "measurements": [record]}
    assert "| ours: at least 3x | 2.0x | **NO** |" in as_markdown(content)


def test_groups_are_chosen_by_name() -> None:
    assert chosen([]) == list(GROUPS)
    assert chosen(["memory", "audit"]) == ["audit", "memory"]
    with pytest.raises(InvalidInputError, match="'speed'"):
        chosen(["speed"])


# Whole audits, some in processes of their own, take a minute: a study.
STUDY = pytest.param("audit", marks=pytest.mark.study)


@pytest.mark.parametrize("group", [*(name for name in GROUPS if name != "audit"), STUDY])
def test_every_group_measures(group: str) -> None:
    records = list(measured(group, QUICK))
    assert records
    for record in records:
        json.dumps(record, allow_nan=False)
        assert all(side["median"] > 0 for side in record["sides"].values())
    marks = [mark for record in records for mark in record["asked"]]
    assert bool(marks) == (group in {"decoding", "start-up", "memory"})


@pytest.mark.parametrize("measure", [auditing._exact, auditing._betting])
def test_rates_of_the_audits_parts(measure) -> None:
    found = measure(QUICK)
    assert found.sides["ours"].low > 0
    assert found.unit in {"paths/s", "tokens/s"}


def test_the_simulations_beside_ours_have_its_law() -> None:
    """Mean accepted tokens ``(a - a^5) / (1 - a)``; 6 standard errors, false alarm 2e-9."""
    rng = np.random.default_rng(5)
    a, rounds = simulating.ALPHA, 20_000
    expected = a * (1 - a**4) / (1 - a)
    for simulate in (simulating.plain_numpy, simulating.document_b_loop):
        mean = simulate(rounds, rng) / rounds
        assert abs(mean - expected) < 6 * 1.7 / rounds**0.5


@pytest.mark.parametrize(
    ("verify", "lossless"), [(verifiers.right, True), (verifiers.planted, False)]
)
def test_one_audited_verifier_is_right_and_one_is_not(verify, lossless) -> None:
    drawn = np.random.default_rng(0).dirichlet(np.ones(3), 5)
    scenario = BlockScenario.from_rows(drawn[:3], drawn[3:])
    assert check_exact(verify, scenario, framework="torch").lossless is lossless
