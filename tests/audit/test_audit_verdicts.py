"""Verdicts: what passes, what is doubted, what is missing, and fits too good to be true.

False-alarm level of an audit 1e-6 where none is stated; seeds fixed.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from specverify.audit.chains import path_law, path_laws
from specverify.audit.checks.fit import fine_cells
from specverify.audit.config import AuditConfig, Budget
from specverify.audit.evidence import fit_p_value, fit_statistic
from specverify.audit.forms import Form
from specverify.audit.scenarios import find, scenarios
from specverify.audit.terms import Terms
from specverify.audit.tiers import completions_text, outlook
from specverify.audit.verdicts import apply_declarations
from specverify.bugs import ZOO
from specverify.errors import InvalidInputError
from specverify.results import CheckResult, Family, Interval, Verdict
from specverify.sampler.verify import speculative_verify

TERMS = Terms(
    n=1000, tests=100, bets=50, false_alarm=1e-6, confidence=0.99, power=0.9, tv=0.02, seed=0
)
FORGIVING = Terms(
    n=1000, tests=9, bets=5, false_alarm=1e-6, confidence=0.99, power=0.9, tv=0.02, seed=0,
    tolerance=0.005,
)  # fmt: skip
SAMPLED = {"framework": "numpy", "mode": "statistical"}


@pytest.mark.parametrize(
    ("log_e", "verdict"),
    [
        (math.inf, Verdict.FAIL),
        (math.log(1.01e8), Verdict.FAIL),  # 50 bets share half of 1e-6
        (math.log(0.99e8), Verdict.INCONCLUSIVE),
        (math.log(101), Verdict.INCONCLUSIVE),
        (math.log(99), Verdict.PASS),
        (-math.inf, Verdict.PASS),
    ],
)
def test_an_e_value_fails_doubts_or_passes(log_e, verdict) -> None:
    assert TERMS.verdict(1.0, 0.5, Interval(high=0.01), log_e=log_e) is verdict


def test_the_better_evidence_is_reported() -> None:
    assert TERMS.adjusted(1.0, math.log(1e8)) == pytest.approx(1e-6)
    assert TERMS.adjusted(1e-9, 0.0) == pytest.approx(2e-7)
    assert TERMS.adjusted(1.0, math.inf) == 0.0


def test_a_tolerance_leaves_failing_to_the_bets_and_widens_bounds() -> None:
    assert FORGIVING.verdict(1e-30, 1e-30, Interval(high=0.015)) is Verdict.PASS
    assert FORGIVING.verdict(1.0, 0.5, Interval(high=0.015), log_e=30.0) is Verdict.FAIL
    widened = FORGIVING.widened(Interval(estimate=0.01, low=0.002, high=0.015, confidence=0.95))
    assert (widened.low, widened.high) == (0.0, pytest.approx(0.02))


def test_missing_completions_by_hand() -> None:
    """A bound shrinks with the root of the completions, evidence grows in proportion."""
    twice = Interval(high=0.04)
    text = outlook(Verdict.INCONCLUSIVE, TERMS, 1000, log_e=0.0, tv=twice)
    assert text == "; about 3,000 more completions are needed to bound it by 0.02"
    half = TERMS.log_e_threshold / 2
    assert "about 1,000 more completions may refute it" in outlook(
        Verdict.INCONCLUSIVE, TERMS, 1000, log_e=half
    )
    # Of 0.02 the tolerance takes 0.005: from 0.035 the rest has to halve.
    widened = outlook(Verdict.INCONCLUSIVE, FORGIVING, 100, log_e=0.0, tv=Interval(high=0.035))
    assert widened == "; about 300 more completions are needed to bound it by 0.02"
    assert outlook(Verdict.PASS, TERMS, 1000, log_e=0.0) == ""
    assert completions_text(1234.5) == "about 1,300 more completions"


def test_an_audit_says_what_it_misses(small_audit) -> None:
    result = small_audit(
        speculative_verify,
        gammas=(1,),
        budget=Budget(calls=300),
        tv=0.02,
        checks=("token[smallest]",),
        **SAMPLED,
    )
    (check,) = result.checks
    assert check.verdict is Verdict.INCONCLUSIVE
    assert "more completions are needed to bound it by" in check.message


class Stratified:
    """Cycles through completions so that their counts match the law; the rest by the rule.

    It knows the audit's scenarios by their first row, and emits one token a call.
    """

    def __init__(self) -> None:
        self._left: list[int] = []
        self._seen = {
            s.chain.target[0, 0].tobytes(): (s, path_law(s.chain, s.length))
            for s in scenarios(Form.VERIFY)
            if s.gamma == 2 and s.vocab_size**s.length <= 2048
        }
        self._counts = {key: np.zeros(len(law)) for key, (_, law) in self._seen.items()}

    def __call__(self, target_probs, draft_probs, draft_tokens, rng: np.random.Generator):
        key = target_probs[0].tobytes()
        if key in self._seen:
            scenario, law = self._seen[key]
            counts = self._counts[key]
            path = int(np.argmax((counts.sum() + 1) * law - counts))
            counts[path] += 1
            shape = (scenario.vocab_size,) * scenario.length
            self._left = [int(token) for token in np.unravel_index(path, shape)]
        if not self._left:
            return speculative_verify(target_probs, draft_probs, draft_tokens, rng)
        return [self._left.pop(0)]


def test_a_fit_too_good_to_be_true_never_passes(small_audit) -> None:
    result = small_audit(Stratified(), gammas=(2,), checks=("token", "joint"), **SAMPLED)
    assert result.summary.law is Verdict.INCONCLUSIVE
    assert result.verdict is Verdict.INCONCLUSIVE
    assert "too-good-fit" in [finding.code for finding in result.summary.findings]
    coupled = [c for c in result.checks if c.params.get("too_good")]
    assert {"joint[zeros-in-draft]", "joint[cold]"} <= {check.name for check in coupled}
    assert all(check.verdict is Verdict.INCONCLUSIVE for check in coupled)
    assert all("too well" in check.message for check in coupled)


@pytest.mark.parametrize("name", ["smallest", "zeros-in-draft", "near-ties"])
def test_honest_counts_seldom_fit_too_well(name) -> None:
    """At most the nominal rate: at 0.05 by an exact binomial bound, at 1e-3 not once."""
    scenario, rng = find(Form.VERIFY, name), np.random.default_rng(4)
    target, draft = path_laws(scenario.chain, scenario.length)
    values = np.array(
        [
            fit_p_value(*fit_statistic([fine_cells(rng.multinomial(n, target), target, draft)]))
            for n in (250, 1000)
            for _ in range(300)
        ]
    )
    hits = int(np.sum(values <= 0.05))
    assert stats.binomtest(hits, len(values), 0.05, alternative="greater").pvalue > 1e-3
    assert values.min() > 1e-4


def test_many_two_way_cells_that_all_hit_are_not_impossible() -> None:
    """A count that equals its expectation is likely: the lattice is allowed for."""
    half = np.full(2, 0.5)
    one = fit_p_value(*fit_statistic([fine_cells(np.array([10, 10]), half, half)]))
    assert one > stats.binom.pmf(10, 20, 0.5)


GROSS = ("resample_from_target", "abs_residual", "draft_row_off", "bonus_from_draft")


@pytest.mark.parametrize("name", GROSS)
def test_gross_bugs_stop_an_audit_before_its_first_look(small_audit, name) -> None:
    result = small_audit(ZOO[name].callable, tv=0.02, **SAMPLED)
    assert result.verdict is Verdict.FAIL
    assert result.timing["stopped"] == "failed"
    # Twelve scenarios have these block sizes; their first looks are 750 completions each.
    drawn = [c.params["length"] and c.n / c.params["length"] for c in _tokens(result)]
    assert sum(drawn) <= 2500
    named = [c.diagnosis for c in result.checks if c.diagnosis is not None]
    assert name in {d.consistent_with for d in named}


def _tokens(result) -> list[CheckResult]:
    return [check for check in result.checks if check.name.startswith("token[")]


def test_declared_loss_says_what_is_missing() -> None:
    check = CheckResult(
        name="token[x]",
        family=Family.LAW,
        verdict=Verdict.FAIL,
        params={"length": 2, "scenario": "x"},
        n=2000,
        tv=Interval(estimate=0.01, low=0.0, high=0.05, confidence=0.99),
        message="seen",
    )
    (judged,) = apply_declarations([check], AuditConfig(declare="lossy:0.03"))
    assert judged.verdict is Verdict.INCONCLUSIVE
    assert judged.message.endswith("declared 0.03: about 3,000 more completions may show it")
    (passed,) = apply_declarations([check], AuditConfig(declare="lossy:0.06"))
    assert passed.verdict is Verdict.PASS


def test_refuses_a_tolerance_out_of_range() -> None:
    with pytest.raises(InvalidInputError, match="tolerance"):
        AuditConfig(tolerance=1.0)
