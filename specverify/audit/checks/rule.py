"""Whether blocks follow the standard rule, stage by stage: the most that a trace can tell.

Draft, accept decision and last token of every round are known, and so are the laws of each. A
deviation breaks no law by itself (other schemes are lossless too); beside a failing law it says
which stage is wrong.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from specverify.audit.betting import Counts, together
from specverify.audit.scenarios import Scenario
from specverify.audit.tally import Tally
from specverify.audit.terms import Terms
from specverify.audit.tiers import Tier
from specverify.results import CheckResult, Diagnosis, Family, Verdict
from specverify.stats.bets import capped_e_value
from specverify.stats.context import ContextBets, Evidence
from specverify.stats.trace import TraceBets

__all__ = ["RuleEvidence", "check_rule", "rule_evidence"]

_ROUNDING = 1e-6
"""Where target and draft agree to this fraction, rows rounded to float32 may decide either way."""


@dataclass(frozen=True, kw_only=True)
class RuleEvidence:
    """Evidence against the standard rule.

    Attributes:
        log_e: Logarithm of the e-value.
        stages: Logarithm of the evidence at ``accept``, ``residual`` and ``bonus``.
        impossible: Events that the rule excludes, by stage.
        n: Rounds.
    """

    log_e: float
    stages: dict[str, float]
    impossible: dict[str, int]
    n: int

    @property
    def stage(self) -> str:
        """The first stage with proof, or else the one with the strongest evidence."""
        return max(self.stages, key=lambda name: self.stages[name])


def rule_evidence(scenario: Scenario, tally: Tally) -> RuleEvidence | None:
    """Evidence in the rounds counted so far; None where none were."""
    counts = tally.get("stages")
    if counts is None:
        return None
    unread = tally.total("stages-unread")
    return _bets(scenario).evidence(counts, unread)


def check_rule(scenario: Scenario, tally: Tally, terms: Terms) -> CheckResult:
    """Compare draft, accept flag and last token of every round with the standard rule.

    Args:
        scenario: The rows.
        tally: The counts.
        terms: Terms of the efficiency's checks.

    Returns:
        ``rule[scenario]``; a failure is a finding and no breach of the law. Skipped where no
        rounds are known, or where the laws are known up to a tolerance only.
    """
    name, params = f"rule[{scenario.name}]", scenario.params() | {"tier": str(Tier.TRACE)}
    found = None if terms.tolerance else rule_evidence(scenario, tally)
    if found is None or not found.n:
        text = "no rounds are known" if not terms.tolerance else "the laws are not exact"
        return CheckResult(
            name=name, family=Family.EFFICIENCY, verdict=Verdict.SKIP, params=params, message=text
        )
    failed = found.log_e >= terms.log_e_threshold
    text = _text(found) if failed else f"{Tier.TRACE}: every stage follows the standard rule"
    stages = {stage: capped_e_value(value) for stage, value in found.stages.items()}
    return CheckResult(
        name=name,
        family=Family.EFFICIENCY,
        verdict=Verdict.FAIL if failed else Verdict.PASS,
        params=params | {"e_by_stage": stages, "impossible": found.impossible},
        n=found.n,
        e_value=capped_e_value(found.log_e),
        p_adjusted=terms.adjusted(1.0, found.log_e),
        message=text,
        diagnosis=Diagnosis(text=text, stage=found.stage) if failed else None,
        replay=terms.replay(scenario.name),
    )


def _text(found: RuleEvidence) -> str:
    proof = ", ".join(f"{n} {_EVENTS[stage]}" for stage, n in found.impossible.items() if n)
    return f"{Tier.TRACE}: not the standard rule, first at the {found.stage} stage" + (
        f" ({proof})" if proof else ""
    )


_EVENTS = {
    "accept": "decisions that the rule excludes",
    "residual": "corrections outside the residual",
    "bonus": "bonus tokens outside the target's support",
    "emission": "blocks that are no accepted drafts and one token more",
}


class _RuleBets:
    def __init__(self, scenario: Scenario) -> None:
        chain, gamma = scenario.chain, scenario.gamma
        self._scenario = scenario
        self._tested = {
            (i, j): TraceBets(chain.target[i, j], chain.draft[i, j])
            for i, j in np.ndindex(gamma, chain.contexts)
        }
        self._bonus = [
            ContextBets(row, alternatives={"draft": chain.draft[gamma - 1, j]})
            for j, row in enumerate(chain.target[gamma])
        ]

    def evidence(self, counts: Counts, unread: int) -> RuleEvidence:
        """Evidence in counts of shape ``(gamma + 1, contexts, 3, vocab)``."""
        gamma = self._scenario.gamma
        places, stages = [], {"accept": 0.0, "residual": 0.0}
        impossible = {"accept": 0, "residual": 0}
        for (i, j), bets in self._tested.items():
            if not counts[i, j].any():
                continue
            seen = bets.evidence(*self._decided(i, j, counts[i, j]))
            places.append(Evidence(log_e=seen.log_e, n=0, impossible=0, shares={}))
            for stage in stages:
                stages[stage] += seen.stages[stage]
                impossible[stage] += seen.impossible[stage]
        bonus = [
            bets.evidence(last)
            for bets, last in zip(self._bonus, counts[gamma, :, 2], strict=True)
            if last.any()
        ]
        stages["bonus"] = float(sum(e.log_e for e in bonus))
        impossible["bonus"] = sum(e.impossible for e in bonus)
        if unread:
            stages["emission"], impossible["emission"] = np.inf, unread
        log_e = np.inf if unread else together([*places, *bonus]).log_e
        n = int(counts[:, :, 2].sum()) + unread
        return RuleEvidence(log_e=log_e, stages=stages, impossible=impossible, n=n)

    def _decided(self, i: int, j: int, counts: Counts) -> tuple[Counts, Counts, Counts]:
        """The counts, without events that rounding alone could bring about."""
        target = self._scenario.chain.target[i, j]
        draft = self._scenario.chain.draft[i, j]
        clear = np.abs(target - draft) > _ROUNDING * np.maximum(target, draft)
        return counts[0], counts[1] * clear, counts[2] * clear


@lru_cache(maxsize=256)
def _bets(scenario: Scenario) -> _RuleBets:
    return _RuleBets(scenario)
