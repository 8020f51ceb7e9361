"""From the counts of one scenario to its checks."""

from __future__ import annotations

from specverify.audit.betting import JOINT, TOKEN, bets_for
from specverify.audit.checks import (
    contract,
    drafted,
    efficiency,
    exact,
    joint,
    rule,
    token,
    transform,
    two_samples,
)
from specverify.audit.config import AuditConfig
from specverify.audit.engines import EngineScenario
from specverify.audit.planning import Plan
from specverify.audit.scenarios import Scenario
from specverify.audit.schemes import BLOCK, MATCH
from specverify.audit.suites import AnyScenario
from specverify.audit.tally import Tally
from specverify.audit.terms import Terms
from specverify.results import CheckResult

__all__ = ["judge", "settled"]

_SCHEMES = {"block": BLOCK, "match": MATCH}


def judge(scenario: AnyScenario, tally: Tally, plan: Plan, look: int) -> list[CheckResult]:
    """Every check of one scenario at one look.

    Args:
        scenario: What was sampled.
        tally: Counts of all looks so far.
        plan: Levels and planned samples.
        look: The look, from 0.

    Returns:
        Law, efficiency and contract checks, in this order.
    """
    if "skipped" in tally.cases:
        return [contract.skipped(scenario, str(tally.cases["skipped"]["reason"]))]
    law = plan.terms(scenario.name, look)
    mode = plan.config.mode
    traced = []
    if mode != "statistical":
        traced = [exact.check_exact(scenario, tally, law, only=mode == "exact")]
    if mode == "exact" and not settled(tally):
        # An ordinary call that went wrong is told, although nothing else is sampled.
        wrong = tally.error is not None
        return traced + ([contract.check_interface(scenario, tally, law)] if wrong else [])
    return traced + _sampled(scenario, tally, plan, look)


def settled(tally: Tally | None) -> bool:
    """Whether tracing decided what samples of the law would."""
    record = None if tally is None else exact.record_of(tally)
    return record is not None and record.conclusive


def _sampled(scenario: AnyScenario, tally: Tally, plan: Plan, look: int) -> list[CheckResult]:
    """The checks of counts; those of the law only where nothing is proved."""
    law = plan.terms(scenario.name, look)
    terms = plan.terms(scenario.name, look, efficiency=True)
    if isinstance(scenario, EngineScenario) and two_samples.applies(tally):
        bet = bets_for(scenario, tolerance=law.tolerance).evidence(tally)[TOKEN]
        checks = [two_samples.check_two_samples(scenario, tally, law, bet=bet)]
    else:
        checks = [] if settled(tally) else _law(scenario, tally, law)
        if isinstance(scenario, EngineScenario):
            checks.append(transform.check_passes(scenario, tally, terms))
        else:
            checks += _speed(scenario, tally, terms, config=plan.config)
            checks += drafted.check_drafted(scenario, tally, terms)
    checks.append(contract.check_interface(scenario, tally, law))
    checks.append(contract.check_reproducible(scenario, tally, law))
    if tally.get("reports-broken") is not None:
        checks.append(contract.check_counts(scenario, tally, law))
    return checks


def _law(scenario: AnyScenario, tally: Tally, law: Terms) -> list[CheckResult]:
    """Checks of the emitted tokens against the target's law."""
    bets = bets_for(scenario, tolerance=law.tolerance).evidence(tally)
    if isinstance(scenario, EngineScenario):
        return [
            transform.check_transform(scenario, tally, law, bet=bets[TOKEN]),
            transform.check_pairs(scenario, tally, law, bet=bets[JOINT]),
        ]
    checks = [token.check_tokens(scenario, tally, law, bet=bets[TOKEN])]
    if joint.applies(scenario):
        checks.append(joint.check_joint(scenario, tally, law, bet=bets[JOINT]))
    return checks


def _speed(
    scenario: Scenario, tally: Tally, terms: Terms, *, config: AuditConfig
) -> list[CheckResult]:
    """Checks of accepted drafts and emitted lengths, by the scheme that is expected."""
    scheme = _SCHEMES.get(config.expect)
    if scheme is not None and not scheme.applies(scenario):
        return [efficiency.unpredicted(scenario, scheme)]
    if scheme is not None:
        return [
            efficiency.check_length(scenario, tally, terms, scheme=scheme),
            efficiency.check_acceptance(scenario, tally, terms, scheme=scheme),
        ]
    length = efficiency.check_length(scenario, tally, terms)
    return [
        exact.sharpened(length, exact.record_of(tally), declared=config.declared_tv or 0.0),
        efficiency.check_acceptance(scenario, tally, terms),
        rule.check_rule(scenario, tally, terms),
    ]
