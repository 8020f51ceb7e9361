"""What a failure looks like: the position, the stage, and the known bugs that fit.

A hint and never more: blocks are compared with the exact laws of the zoo's members, and those that
the data do not refute are named together.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np
from msgspec.structs import replace

from specverify.audit.alternatives import known_rows
from specverify.audit.betting import TOKEN, bets_for
from specverify.audit.cells import merge, token_cells
from specverify.audit.checks.exact import is_exact
from specverify.audit.checks.rule import RuleEvidence, rule_evidence
from specverify.audit.counting import block_number
from specverify.audit.evidence import Stratum, entropy_p_value, relative_entropy, weigh
from specverify.audit.forms import Form
from specverify.audit.planning import NAMING
from specverify.audit.scenarios import Scenario, find
from specverify.audit.tally import Tally
from specverify.bugs import ZOO
from specverify.bugs.laws import block_law
from specverify.bugs.staged import StagedVerifier
from specverify.results import CheckResult, Diagnosis, Family, Verdict
from specverify.stats.naming import UNKNOWN, name_alternative, posterior_shares

__all__ = ["diagnosed"]

_BROKEN = 1e-4
_PROVEN = math.log(1e6)
"""Evidence of the trace from which its stage is believed."""
_REFUTED = 1e-3
_FLOOR = 1e-6
_VISIBLE = 1e-3
_AS_LIKELY = 7.0
"""Bugs whose likelihoods differ by less than this many nats are named together."""


def diagnosed(
    checks: Sequence[CheckResult], tallies: Mapping[str, Tally]
) -> tuple[CheckResult, ...]:
    """Add a diagnosis to every failed check of the law.

    Args:
        checks: Checks of an audit of a block verifier.
        tallies: Counts by scenario.

    Returns:
        The checks, in their order.
    """
    failed = [c for c in checks if _by_samples(c) and c.verdict is Verdict.FAIL]
    if not failed:
        return tuple(checks)
    fitting = _fitting_bugs(tallies) or _sharing_bugs(tallies)
    slow = {
        str(c.params["scenario"])
        for c in checks
        if c.name.startswith("acceptance[") and c.verdict is Verdict.FAIL
    }
    return tuple(_with_diagnosis(c, tallies, fitting, slow) if c in failed else c for c in checks)


def _by_samples(check: CheckResult) -> bool:
    return check.family is Family.LAW and not is_exact(check)


def _with_diagnosis(
    check: CheckResult, tallies: Mapping[str, Tally], fitting: Sequence[str], slow: set[str]
) -> CheckResult:
    name = str(check.params["scenario"])
    scenario = find(Form.VERIFY, name)
    broken = broken_positions(scenario, tallies[name])
    first = _breaks_at(scenario, fitting[0]) if fitting else []
    position = min([*broken, *first], default=None)
    stage = _stage(scenario, broken, accepts_wrongly=name in slow)
    stage = _stage_of(fitting, rule_evidence(scenario, tallies[name])) or stage
    where = "jointly" if position is None else f"at position {position} of the block"
    what = f"consistent with {' or '.join(fitting[:3])}" if fitting else "unlike every known bug"
    text = f"the law breaks {where}; stage: {stage or 'unknown'}; {what}"
    return replace(
        check,
        diagnosis=Diagnosis(
            text=text,
            consistent_with=fitting[0] if fitting else None,
            stage=stage,
            position=position,
            siblings=tuple(fitting[1:]),
        ),
    )


def broken_positions(scenario: Scenario, tally: Tally) -> list[int]:
    """Positions in the block where tokens, once reached, do not follow the target's row."""
    counts = tally.get("block-token")
    if counts is None:
        return []
    broken = []
    for position in range(scenario.gamma + 1):
        evidence = weigh(_strata(scenario, counts[position], position))
        impossible = counts[position][scenario.chain.target[position] == 0].sum()
        if impossible or evidence.chi_square_p * (scenario.gamma + 1) <= _BROKEN:
            broken.append(position)
    return broken


def _strata(scenario: Scenario, counts: np.ndarray, position: int) -> list[Stratum]:
    strata = []
    for context in np.flatnonzero(counts.sum(axis=1)):
        target = scenario.chain.target[position, context]
        seen = float(counts[context].sum())
        cells = token_cells(target, scenario.chain.draft[position, context], seen)
        strata.append(Stratum(merge(counts[context], cells).astype(np.int64), merge(target, cells)))
    return strata


def _stage(scenario: Scenario, broken: list[int], *, accepts_wrongly: bool) -> str | None:
    if not broken:
        return None
    if broken == [scenario.gamma]:
        return "bonus"
    return "accept" if accepts_wrongly else "residual"


def _breaks_at(scenario: Scenario, bug: str) -> list[int]:
    """Positions at which a known bug changes the law of a token."""
    rows = known_rows(scenario).get(bug)
    if rows is None:
        return []
    gaps = np.abs(rows - scenario.chain.target[: scenario.length]).sum(axis=2).max(axis=1)
    return [int(position) for position in np.flatnonzero(gaps > _VISIBLE)]


def _stage_of(fitting: Sequence[str], trace: RuleEvidence | None) -> str | None:
    """The stage that all fitting bugs share; else what the trace says, else the best bug's."""
    stages = [str(ZOO[bug].stage) for bug in fitting]
    if len(set(stages)) == 1:
        return stages[0]
    traced = trace.stage if trace is not None and trace.log_e >= _PROVEN else None
    if traced is not None and (not stages or traced in stages):
        return traced
    return stages[0] if stages else None


def _sharing_bugs(tallies: Mapping[str, Tally]) -> list[str]:
    """Known bugs that the bets speak for, the best first, where blocks are not counted whole."""
    total: dict[str, float] = {}
    for name, tally in tallies.items():
        scenario = find(Form.VERIFY, name)
        evidence = bets_for(scenario).evidence(tally)[TOKEN]
        # What a scenario cannot tell from the right law explains its counts as the law does, and
        # tokens that the law excludes not at all.
        idle = -math.inf if evidence.impossible else 0.0
        scale = 0.0 if evidence.impossible else evidence.log_e
        own = {bug: scale + math.log(s) for bug, s in evidence.shares.items() if s > 0}
        # A bug of no name may leave a scenario alone: it never explains one worse than the law.
        own[UNKNOWN] = max(own.get(UNKNOWN, idle), idle)
        for bug in {*ZOO, UNKNOWN}:
            total[bug] = total.get(bug, 0.0) + own.get(bug, idle)
    naming = name_alternative(posterior_shares(total), sibling_ratio=math.exp(-_AS_LIKELY))
    if naming.consistent_with is None:
        return []
    return [naming.consistent_with, *naming.siblings]


def _fitting_bugs(tallies: Mapping[str, Tally]) -> list[str]:
    """Known bugs that the blocks do not refute, the best first."""
    seen = {
        name: tallies[name].arrays["block-path"]
        for name in NAMING
        if name in tallies and tallies[name].get("block-path") is not None
    }
    fits = sorted(
        (misfit, bug) for bug in _candidates(seen) if (misfit := _misfit(bug, seen)) is not None
    )
    if not fits or relative_entropy(_strata_of("", seen)) < fits[0][0] + _AS_LIKELY:
        return []  # what explains these blocks no better than the right law is no explanation
    return [bug for misfit, bug in fits if misfit <= fits[0][0] + _AS_LIKELY]


def _candidates(seen: Mapping[str, np.ndarray]) -> list[str]:
    """Block verifiers of the zoo that emit another law than the standard one on these scenarios."""
    return [
        bug.name
        for bug in ZOO.values()
        if isinstance(bug.callable, StagedVerifier)
        and any(np.abs(_law_of(bug.name, name) - _law_of("", name)).sum() > 0.01 for name in seen)
    ]


def _misfit(bug: str, seen: Mapping[str, np.ndarray]) -> float | None:
    """Relative entropy of the blocks to the bug's law; None where they refute it."""
    strata = _strata_of(bug, seen)
    # Cells that the bug never reaches do not count as freedom.
    freedom = [int((s.probs > 10 * _FLOOR / len(s.probs)).sum()) for s in strata]
    entropy = relative_entropy(strata)
    return entropy if entropy_p_value(entropy, sum(freedom)) > _REFUTED else None


def _strata_of(bug: str, seen: Mapping[str, np.ndarray]) -> list[Stratum]:
    return [Stratum(counts, _law_of(bug, name)) for name, counts in seen.items()]


@cache
def _law_of(bug: str, name: str) -> np.ndarray:
    """Exact law of the first block under a bug, or under the standard rule for no name."""
    scenario = find(Form.VERIFY, name)
    chain, gamma = scenario.chain, scenario.gamma
    verifier = ZOO[bug].callable if bug else StagedVerifier()
    assert isinstance(verifier, StagedVerifier)
    law = np.zeros((scenario.vocab_size + 1) ** (gamma + 1))
    for tokens, probability in block_law(
        verifier, chain.target[: gamma + 1, 0], chain.draft[:gamma, 0]
    ).items():
        if all(0 <= token < scenario.vocab_size for token in tokens):
            law[block_number(tokens, scenario)] += probability
    mixed: np.ndarray = (1 - _FLOOR) * law + _FLOOR / len(law)
    return mixed
