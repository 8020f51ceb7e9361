"""Single checks on counts made for them: what each p-value, share and distance is made of.

Draws are seeded; the level of an audit is 1e-6.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from specverify.audit.chains import path_law
from specverify.audit.checks.contract import check_counts, check_interface, check_reproducible
from specverify.audit.checks.efficiency import check_acceptance, check_length, reports_finding
from specverify.audit.checks.fit import TOO_GOOD
from specverify.audit.checks.joint import check_joint
from specverify.audit.checks.token import check_tokens, position_strata
from specverify.audit.counting import count_completions
from specverify.audit.evidence import weigh
from specverify.audit.forms import Form
from specverify.audit.scenarios import Scenario, find
from specverify.audit.tally import Tally
from specverify.audit.terms import SUSPICIOUS, Terms
from specverify.results import Verdict
from specverify.stats.context import Evidence

TERMS = Terms(
    n=2000, tests=100, bets=50, false_alarm=1e-6, confidence=0.999, power=0.9, tv=1.0, seed=0
)
NO_BET = Evidence(log_e=0.0, n=0, impossible=0, shares={})


def drawn(scenario: Scenario, n: int, *, seed: int = 0) -> np.ndarray:
    """Completions of a target whose rows depend on the position alone."""
    rng, chain = np.random.default_rng(seed), scenario.chain
    assert chain.contexts == 1
    return np.column_stack(
        [
            rng.choice(scenario.vocab_size, size=n, p=chain.target[i, 0])
            for i in range(scenario.length)
        ]
    )


def counted(scenario: Scenario, tokens: np.ndarray) -> Tally:
    tally = Tally()
    count_completions(tally, scenario, tokens.tolist())
    return tally


def leaning(tokens: np.ndarray, position: int, share: float) -> np.ndarray:
    """The same completions, so many of them with token 0 at a position."""
    moved = tokens.copy()
    moved[: round(share * len(tokens)), position] = 0
    return moved


def test_one_position_that_is_off_is_doubted_and_then_refuted() -> None:
    """It is tested alone beside all together: twice the smaller p-value, after Bonferroni."""
    scenario = find(Form.VERIFY, "long-block")
    tokens, verdicts = drawn(scenario, 2000), []
    for share in (0.0, 0.024, 0.03, 0.1):
        tally = counted(scenario, leaning(tokens, 4, share))
        check = check_tokens(scenario, tally, TERMS, bet=NO_BET)
        verdicts.append(check.verdict)
        alone = 9 * min(check.params["p_by_position"])
        assert check.p_value <= min(1.0, 2 * alone)
        if share:
            assert check.params["p_by_position"][4] == min(check.params["p_by_position"])
        if share == 0.024:  # suspicious alone, and not as the least of nine
            least = min(weigh(one).chi_square_p for one in position_strata(scenario, tally, 2000))
            assert SUSPICIOUS / 9 < least < SUSPICIOUS
        if share == 0.03:
            assert check.params["chi_square_p"] > SUSPICIOUS  # all together would pass
    assert verdicts == [Verdict.PASS, Verdict.PASS, Verdict.INCONCLUSIVE, Verdict.FAIL]
    assert check.p_value == pytest.approx(2 * alone, rel=1e-9, abs=0)
    assert check.diagnosis is not None
    assert check.diagnosis.position == 4
    both = counted(scenario, leaning(leaning(tokens, 6, 0.1), 4, 0.1))
    assert check_tokens(scenario, both, TERMS, bet=NO_BET).diagnosis.position == 4


def test_a_single_position_is_tested_once() -> None:
    scenario = find(Form.DECODE, "one-token")
    tally, law = Tally(), scenario.chain.target[0, scenario.chain.start]
    counts = np.random.default_rng(1).multinomial(500, law)
    tally.table("token", (1, scenario.chain.contexts, len(law)))[0, scenario.chain.start] = counts
    check = check_tokens(scenario, tally, TERMS, bet=NO_BET)
    assert check.params["p_by_position"] == [check.p_value]


def test_an_impossible_token_is_proof_unless_something_is_forgiven() -> None:
    scenario = find(Form.VERIFY, "zeros-in-target")
    tokens = drawn(scenario, 2000)
    excluded = int(np.flatnonzero(scenario.chain.target[1, 0] == 0)[0])
    tokens[0, 1] = excluded
    tally = counted(scenario, tokens)
    strict = check_tokens(scenario, tally, TERMS, bet=NO_BET)
    assert (strict.verdict, strict.p_value, strict.diagnosis.position) == (Verdict.FAIL, 0.0, 1)
    lenient = check_tokens(scenario, tally, replace(TERMS, tolerance=0.01), bet=NO_BET)
    assert lenient.verdict is Verdict.PASS
    assert lenient.p_value > 0
    assert lenient.tv.high == pytest.approx(strict.tv.high + 0.01)  # the law itself may be off


@pytest.mark.parametrize("check", [check_tokens, check_joint])
def test_a_law_of_one_completion_is_bounded_by_what_is_none(check: Any) -> None:
    """Three of 1,000 completions have one wrong token of four."""
    scenario = find(Form.VERIFY, "one-hot")
    tokens = drawn(scenario, 1000)
    tokens[:3, 1] = (tokens[:3, 1] + 1) % scenario.vocab_size
    tv = check(scenario, counted(scenario, tokens), TERMS, bet=NO_BET).tv
    assert tv.estimate == pytest.approx(3 / 4000 if check is check_tokens else 3 / 1000)
    assert 0 < tv.low < tv.estimate < tv.high


def test_bounds_have_the_audits_confidence_and_a_pass_needs_them() -> None:
    scenario = find(Form.VERIFY, "long-block")
    tally = counted(scenario, drawn(scenario, 2000))
    strata = [s for one in position_strata(scenario, tally, 2000) for s in one]
    high = weigh(strata, confidence=0.999).tv.high
    assert check_tokens(scenario, tally, TERMS, bet=NO_BET).tv.high == high
    for allowed, verdict in ((1.01 * high, Verdict.PASS), (0.99 * high, Verdict.INCONCLUSIVE)):
        found = check_tokens(scenario, tally, replace(TERMS, tv=allowed), bet=NO_BET)
        assert found.verdict is verdict


@pytest.mark.parametrize("name", ["zeros-in-draft", "one-hot"])
def test_bounds_of_completions_are_widened_by_what_is_forgiven(name: str) -> None:
    scenario = find(Form.VERIFY, name)
    tally = counted(scenario, drawn(scenario, 2000))
    strict = check_joint(scenario, tally, TERMS, bet=NO_BET)
    lenient = check_joint(scenario, tally, replace(TERMS, tolerance=0.01), bet=NO_BET)
    assert lenient.tv.high == pytest.approx(strict.tv.high + 0.01)


def test_completions_that_nobody_counted_bound_nothing() -> None:
    scenario = find(Form.VERIFY, "zeros-in-draft")
    check = check_joint(scenario, Tally(), TERMS, bet=NO_BET)
    assert (check.verdict, check.tv) == (Verdict.INCONCLUSIVE, None)
    few = counted(scenario, drawn(scenario, 2))  # one cell
    assert check_joint(scenario, few, replace(TERMS, n=2), bet=NO_BET).tv is None


def test_neighbours_that_are_tied_are_told_from_the_others() -> None:
    scenario = find(Form.VERIFY, "long-block")
    tokens, verdicts = drawn(scenario, 2000), []
    for share in (0.2, 0.3, 0.6):
        tied = tokens.copy()
        # Tokens 4 and 5 are sorted alike in so many completions: each keeps its own law.
        some = round(share * len(tied))
        tied[:some, 4], tied[:some, 5] = np.sort(tied[:some, 4]), np.sort(tied[:some, 5])
        check = check_joint(scenario, counted(scenario, tied), TERMS, bet=NO_BET)
        verdicts.append(check.verdict)
        if share == 0.2:
            # The most suspicious of eight pairs: doubted alone, not among so many.
            assert SUSPICIOUS / 8 < check.params["chi_square_p"] < SUSPICIOUS
    assert verdicts == [Verdict.PASS, Verdict.INCONCLUSIVE, Verdict.FAIL]
    assert check.params["counted"] == "tokens 4 and 5"


@pytest.mark.parametrize("check", [check_tokens, check_joint])
def test_bets_decide_beside_the_looks(check: Any) -> None:
    scenario = find(Form.VERIFY, "zeros-in-draft")
    tally = counted(scenario, drawn(scenario, 2000))
    for log_e, verdict in ((0.0, "pass"), (np.log(200), "inconclusive"), (np.inf, "fail")):
        found = check(scenario, tally, TERMS, bet=Evidence(log_e, 2000, 0, {}))
        assert found.verdict == verdict


@pytest.mark.parametrize("check", [check_tokens, check_joint])
def test_counts_without_any_chance_do_not_pass(check: Any) -> None:
    """Completions as often as they are expected, to the nearest whole number."""
    scenario = find(Form.VERIFY, "zeros-in-draft")
    often = np.rint(20_000 * path_law(scenario.chain, scenario.length)).astype(int)
    shape = (scenario.vocab_size,) * scenario.length
    tokens = np.column_stack(np.unravel_index(np.repeat(np.arange(len(often)), often), shape))
    found = check(scenario, counted(scenario, tokens), TERMS, bet=NO_BET)
    assert (found.verdict, found.params.get(TOO_GOOD)) == (Verdict.INCONCLUSIVE, True)
    honest = check(scenario, counted(scenario, drawn(scenario, 20_000)), TERMS, bet=NO_BET)
    assert (honest.verdict, honest.params.get(TOO_GOOD)) == (Verdict.PASS, None)


def blocks(scenario: Scenario, seen: dict[tuple[int, int], int]) -> Tally:
    """Blocks of a scenario of one context, by leading drafts and length."""
    tally, gamma = Tally(), scenario.gamma
    table = tally.table("blocks", (1, gamma + 1, gamma + 2))
    for (leading, length), count in seen.items():
        table[0, leading, length] = count
    return tally


def test_tokens_per_pass_and_acceptance_by_hand() -> None:
    """Of 100 blocks of two drafts 60 keep the first and 30 both. In ten of those that keep one
    the correction is the second draft again, which is no acceptance: no bonus follows.
    """
    scenario = find(Form.VERIFY, "zeros-in-draft")
    tally = blocks(scenario, {(0, 1): 40, (1, 2): 20, (2, 2): 10, (2, 3): 30})
    accepted = check_acceptance(scenario, tally, TERMS)
    assert accepted.params["accepted_over_tested"] == pytest.approx([0.6, 0.5])
    rates = np.minimum(scenario.chain.target[:2, 0], scenario.chain.draft[:2, 0]).sum(axis=1)
    assert accepted.params["one_minus_tv"] == pytest.approx(rates.tolist())
    trials, gaps = np.array([100, 60]), np.array([60, 30]) - rates * [100, 60]
    assert accepted.statistic == pytest.approx(np.sum(gaps**2 / (trials * rates * (1 - rates))))
    length = check_length(scenario, tally, TERMS)
    assert length.params["tokens_per_pass"] == pytest.approx(1.9)
    assert length.params["standard_error"] == pytest.approx(np.sqrt(0.69 / 100))
    assert length.params["expected_tokens_per_pass"] == pytest.approx(1 + rates[0] * (1 + rates[1]))
    # Without a bonus anywhere the last draft's acceptance is believed.
    plain = blocks(scenario, {(0, 1): 40, (1, 2): 20, (2, 2): 40})
    found = check_acceptance(scenario, plain, TERMS).params["accepted_over_tested"]
    assert found == pytest.approx([0.6, 4 / 6])


@pytest.mark.parametrize(
    ("reports", "code"),
    [
        ((5, 0, 0), None),
        ((5, 3, 0), "accepted-counts-corrections"),
        ((5, 3, 1), "accepted-count-differs"),
        ((5, 0, 1), "accepted-count-differs"),
    ],
)
def test_what_reports_count(reports, code) -> None:
    tally = Tally()
    tally.table("reports", (3,))[...] = reports
    found = reports_finding({"a": tally, "b": Tally()})
    assert (found and found.code) == code


@pytest.mark.parametrize(
    ("check", "table", "verdicts"),
    [
        (check_reproducible, "repeats", ("skip", "pass", "fail", "fail")),
        (check_counts, "reports-broken", ("skip", "pass", "fail", "fail")),
    ],
)
def test_one_exception_fails_a_contract(check, table: str, verdicts) -> None:
    scenario = find(Form.VERIFY, "smallest")
    for counts, verdict in zip(((0, 0), (9, 0), (9, 1), (0, 1)), verdicts, strict=True):
        tally = Tally()
        tally.table(table, (2,))[...] = counts
        found = check(scenario, tally, TERMS)
        assert (found.verdict, found.n) == (verdict, sum(counts))
    untouched = Tally()
    assert check_interface(scenario, untouched, TERMS).verdict is Verdict.SKIP
    untouched.table("calls", (1,))[0] = 3
    assert check_interface(scenario, untouched, TERMS).verdict is Verdict.PASS
    untouched.error = {"type": "E", "message": "m", "case": {"x": 1}}
    assert check_interface(scenario, untouched, TERMS).verdict is Verdict.ERROR
