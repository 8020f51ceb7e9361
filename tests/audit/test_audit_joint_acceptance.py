"""What block verification is expected to accept, and how it is told from the standard rule."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest

from specverify.audit.chains import accepted_pmf
from specverify.audit.checks.efficiency import check_acceptance, check_length, fitting_scheme
from specverify.audit.config import AuditConfig, Budget
from specverify.audit.exact_record import ExactRecord
from specverify.audit.findings import find_all
from specverify.audit.forms import Form
from specverify.audit.joint_acceptance import jointly_accepted_pmf, prefixes
from specverify.audit.run import audit
from specverify.audit.scenarios import find
from specverify.audit.schemes import BLOCK, STANDARD, Scheme
from specverify.audit.tally import Tally
from specverify.audit.terms import Terms
from specverify.audit.tracing import block_scenario
from specverify.bugs.catalog.controls_schemes import BLOCK_VERIFICATION
from specverify.exact.blocks import scenario_law
from specverify.results import Verdict

SCENARIO = find(Form.VERIFY, "zeros-in-target")
TERMS = Terms(
    n=20_000, tests=100, bets=10, false_alarm=1e-6, confidence=0.999, power=0.9, tv=0.02, seed=0
)


@pytest.mark.parametrize("name", ["zeros-in-draft", "markov", "cold", "disjoint", "same"])
def test_expected_lengths_are_those_of_the_traced_rule(name: str) -> None:
    scenario = find(Form.VERIFY, name)
    law = scenario_law(
        BLOCK_VERIFICATION.callable,
        block_scenario(scenario.chain, scenario.gamma),
        framework="numpy",
    )
    lengths = np.zeros(scenario.gamma + 2)
    for (emitted, _), mass in law.probabilities.items():
        lengths[len(emitted)] += mass
    expected = jointly_accepted_pmf(scenario.chain, scenario.gamma)
    np.testing.assert_allclose(lengths[1:], expected, atol=1e-12)


def test_one_draft_is_accepted_as_by_the_standard_rule() -> None:
    chain = find(Form.VERIFY, "vocab-50257").chain
    np.testing.assert_allclose(jointly_accepted_pmf(chain, 1), accepted_pmf(chain, 1), atol=1e-12)


def test_where_there_are_too_many_prefixes_nothing_is_predicted() -> None:
    scenario = find(Form.VERIFY, "vocab-4096")
    assert prefixes(scenario.chain, scenario.gamma) == 4096**4
    assert not BLOCK.applies(scenario)
    assert STANDARD.applies(scenario)


def _counted(scheme: Scheme, n: int) -> Tally:
    """Blocks as they are expected of a scheme, without chance."""
    law = scheme.outcome_law(SCENARIO, SCENARIO.chain.start)
    tally = Tally()
    tally.table("blocks", (1, *law.shape))[0] = np.rint(n * law)
    return tally


@pytest.mark.parametrize("check", [check_length, check_acceptance])
def test_each_scheme_passes_where_it_is_expected_and_fails_where_it_is_not(check: Any) -> None:
    for followed in (STANDARD, BLOCK):
        for expected in (STANDARD, BLOCK):
            tally = _counted(followed, 20_000)
            verdict = check(SCENARIO, tally, TERMS, scheme=expected).verdict
            assert verdict is (Verdict.PASS if followed is expected else Verdict.FAIL)


def test_the_scheme_that_is_followed_is_named() -> None:
    for scheme in (STANDARD, BLOCK):
        tallies = {SCENARIO.name: _counted(scheme, 20_000)}
        assert fitting_scheme([SCENARIO], tallies, TERMS) is scheme


def test_a_scheme_that_fits_better_is_not_named_before_the_standard_rule_is_refuted() -> None:
    tallies = [{SCENARIO.name: _counted(BLOCK, n)} for n in (2000, 5000)]
    assert [fitting_scheme([SCENARIO], seen, TERMS) for seen in tallies] == [STANDARD, BLOCK]


def test_the_standard_rule_is_kept_until_it_is_refuted_and_what_fits_nothing_is_none() -> None:
    """Of 20,000 blocks some have their last token moved: from luck to what no scheme does."""
    named = []
    for moved in (100, 300, 5000):
        tally = _counted(STANDARD, 20_000)
        table = tally.arrays["blocks"][0]
        table[0, 1] -= moved
        table[-1, -1] += moved
        named.append(fitting_scheme([SCENARIO], {SCENARIO.name: tally}, TERMS))
    assert named == [STANDARD, STANDARD, None]


@pytest.mark.parametrize(
    ("name", "block"), [("same", (0, 1)), ("disjoint", (1, 2))], ids=["rejected", "accepted"]
)
def test_one_rounded_ratio_does_not_refute_what_is_certain(name: str, block) -> None:
    scenario = find(Form.VERIFY, name)
    law = STANDARD.outcome_law(scenario, scenario.chain.start)
    tally = Tally()
    table = tally.table("blocks", (scenario.chain.contexts, *law.shape))
    table[scenario.chain.start] = np.rint(1000 * law)
    assert check_acceptance(scenario, tally, TERMS).verdict is Verdict.PASS
    table[scenario.chain.start, *block] += 1
    assert check_acceptance(scenario, tally, TERMS).verdict is Verdict.PASS


def test_a_law_that_is_broken_is_not_called_block_verification() -> None:
    found = []
    for outcome in ("lossless", "biased"):
        tally = _counted(BLOCK, 20_000)
        tally.note("exact", msgspec.to_builtins(ExactRecord(outcome=outcome)))
        findings = find_all([SCENARIO], {SCENARIO.name: tally}, TERMS, [])
        found.append(findings[0].code)
    assert found == ["block-verification", "unknown-scheme"]


def test_an_audit_that_expects_block_verification_judges_by_it() -> None:
    config = AuditConfig(expect="block", gammas=(4,), budget=Budget(calls=1_500))
    result = audit(BLOCK_VERIFICATION.callable, config=config, seed=5)
    names = {check.name: check for check in result.checks}
    assert "rule[mixed]" not in names
    assert "block verification" in names["length[mixed]"].message
    assert names["length[mixed]"].verdict is Verdict.PASS
