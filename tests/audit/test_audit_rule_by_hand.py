"""The standard rule's check on rounds made for it: proof, doubt, and what rounding may do."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from specverify.audit.checks.rule import check_rule, rule_evidence
from specverify.audit.counting import Round, count_rounds
from specverify.audit.forms import Form
from specverify.audit.scenarios import find
from specverify.audit.tally import Tally
from specverify.audit.terms import Terms
from specverify.results import Verdict

TERMS = Terms(
    n=2000, tests=100, bets=50, false_alarm=1e-6, confidence=0.999, power=0.9, tv=1.0, seed=0
)


def counted(name: str, *rounds: Round) -> Tally:
    tally = Tally()
    count_rounds(tally, find(Form.VERIFY, name), list(rounds))
    return tally


def test_one_round_that_the_rule_excludes_is_proof() -> None:
    """Its first token is not the draft, and yet two more follow."""
    scenario, whole = find(Form.VERIFY, "markov"), (0, [1, 2, 0], [1, 2, 0, 1], None)
    assert check_rule(scenario, counted("markov", whole), TERMS).verdict is Verdict.PASS
    tally = counted("markov", whole, (0, [1, 2, 0], [2, 2, 1], None))
    check = check_rule(scenario, tally, TERMS)
    assert check.verdict is Verdict.FAIL
    assert check.diagnosis is not None
    assert check.diagnosis.stage == "emission"
    lenient = check_rule(scenario, tally, replace(TERMS, tolerance=0.01))
    assert lenient.verdict is Verdict.SKIP
    assert check_rule(scenario, Tally(), TERMS).verdict is Verdict.SKIP


def test_evidence_below_the_alarm_is_no_failure() -> None:
    """Every draft is accepted, where some should be rejected."""
    scenario, rng, verdicts = find(Form.VERIFY, "markov"), np.random.default_rng(0), []
    chain = scenario.chain
    for n in (40, 300):
        rounds = []
        for _ in range(n):
            context, tokens = chain.start, []
            for row in (*chain.draft[: scenario.gamma], chain.target[scenario.gamma]):
                tokens.append(int(rng.choice(scenario.vocab_size, p=row[context])))
                context = chain.after(context, tokens[-1])
            rounds.append((chain.start, tokens[:-1], tokens, None))
        tally = counted("markov", *rounds)
        found = rule_evidence(scenario, tally)
        assert found is not None
        assert found.log_e > 0.5
        verdicts.append(check_rule(scenario, tally, TERMS).verdict)
    assert verdicts == [Verdict.PASS, Verdict.FAIL]


def test_a_rejection_among_equal_laws_may_be_rounding() -> None:
    """Target and draft are the same: the ratio of rows in float32 may lie below one."""
    found = rule_evidence(find(Form.VERIFY, "same"), counted("same", (0, [0, 1, 2], [0, 3], None)))
    assert found is not None
    assert not any(found.impossible.values())
    assert found.log_e < np.log(100)
