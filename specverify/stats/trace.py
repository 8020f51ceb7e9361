"""Evidence from the accept trace of one context: draft ids, accept decisions, corrections.

Both laws are known, so every stage has a law of its own: the draft id follows the draft law, it is
accepted with probability ``min(1, target/draft)``, and after a rejection the correction follows the
residual. Stage by stage a structural bug shows within some ten rounds, often as an event that has
probability zero: a correction where target does not exceed draft, a rejection where it does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from scipy.special import logsumexp

from specverify.distributions import acceptance_probabilities, residual_distribution
from specverify.errors import InvalidInputError
from specverify.stats._check import Floats, Ints, as_counts, as_probs
from specverify.stats.bets import log_mixture
from specverify.stats.context import ContextBets

__all__ = ["StageLaws", "TraceBets", "TraceEvidence"]

_ODDS = np.exp(np.array([-8.0, -3.0, -1.0, -0.5, -0.2, 0.2, 0.5, 1.0, 3.0, 8.0]))
_CELLS = 4
_DILUTIONS = ((0.99, 0.7), (0.3, 0.3))
# The accept decision's bets: known rules, one shift of the odds for all tokens, and one a cell.
_ACCEPT_SHARES = np.array([0.5, 0.25, 0.25])


@dataclass(frozen=True, eq=False)
class StageLaws:
    """What a known bug does at each stage; None where it does as it should.

    Attributes:
        draft: Law of the draft id, shape ``(vocab,)``.
        accept: Probability that each draft token is accepted, shape ``(vocab,)``.
        residual: Law of the correction, shape ``(vocab,)``.
    """

    draft: Floats | None = None
    accept: Floats | None = None
    residual: Floats | None = None


@dataclass(frozen=True, eq=False)
class TraceEvidence:
    """Evidence against the laws of one speculated position.

    Attributes:
        log_e: Logarithm of the overall e-value: the average of the three stages' e-values and
            of their product.
        stages: Logarithm of the e-value of ``draft``, ``accept`` and ``residual``.
        impossible: Impossible events seen, by stage.
    """

    log_e: float
    stages: dict[str, float]
    impossible: dict[str, int] = field(default_factory=dict)

    @property
    def stage(self) -> str:
        """The stage with the strongest evidence."""
        return max(self.stages, key=lambda name: self.stages[name])


class TraceBets:
    """The bets on the trace of one context.

    Args:
        target_probs: The target's law, shape ``(vocab,)``.
        draft_probs: The draft's law, same shape.
        known: What known bugs do at each stage, by name.

    Raises:
        InvalidInputError: If a law is no distribution or shapes differ.
    """

    def __init__(
        self,
        target_probs: Floats,
        draft_probs: Floats,
        *,
        known: Mapping[str, StageLaws] | None = None,
    ) -> None:
        target = as_probs("target_probs", target_probs)
        draft = as_probs("draft_probs", draft_probs)
        if target.ndim != 1 or draft.shape != target.shape:
            raise InvalidInputError("draft_probs", f"needs shape {target.shape}, got {draft.shape}")
        bugs = known or {}
        drafts = {name: bug.draft for name, bug in bugs.items() if bug.draft is not None}
        residuals = {name: bug.residual for name, bug in bugs.items() if bug.residual is not None}
        self._chances: Floats = acceptance_probabilities(target, draft)
        self._draft = ContextBets(draft, target, alternatives=drafts)
        residual: Floats = residual_distribution(target, draft)
        self._residual = ContextBets(residual, target, alternatives=residuals)
        self._rules = [
            np.asarray(bug.accept, dtype=np.float64)
            for bug in bugs.values()
            if bug.accept is not None
        ]
        # To accept everything and to reject all that may be rejected are known to everybody.
        self._rules += [np.ones_like(target), np.where(self._chances < 1, 0.0, 1.0)]

    def evidence(self, accepted: Ints, rejected: Ints, corrections: Ints) -> TraceEvidence:
        """Evidence in the counts of all tested positions so far.

        Args:
            accepted: How often each draft id was accepted, shape ``(vocab,)``.
            rejected: How often each draft id was rejected, same shape.
            corrections: How often each token was emitted after a rejection, same shape.

        Raises:
            InvalidInputError: If the counts do not fit.
        """
        size = len(self._chances)
        kept, lost = as_counts("accepted", accepted, size), as_counts("rejected", rejected, size)
        draft = self._draft.evidence(kept + lost)
        residual = self._residual.evidence(as_counts("corrections", corrections, size))
        broken = int(lost[self._chances >= 1].sum() + kept[self._chances <= 0].sum())
        stages = {
            "draft": draft.log_e,
            "accept": np.inf if broken else self._accept_log_e(kept, lost),
            "residual": residual.log_e,
        }
        impossible = {"draft": draft.impossible, "accept": broken, "residual": residual.impossible}
        values = np.array(list(stages.values()))
        # Each stage's factor has mean one given all before, so their product is a bet as well.
        product = np.inf if np.any(np.isposinf(values)) else values.sum()
        log_e = float(log_mixture(np.append(values, product), np.full(4, 0.25)))
        return TraceEvidence(log_e, stages, impossible)

    def _accept_log_e(self, kept: Ints, lost: Ints) -> float:
        open_ = np.flatnonzero((self._chances > 0) & (self._chances < 1) & (kept + lost > 0))
        chances, yes, no = self._chances[open_], kept[open_], lost[open_]
        shifts = [
            yes * np.log(odds) - (yes + no) * np.log1p(chances * (odds - 1)) for odds in _ODDS
        ]
        by_odds = np.array(shifts).reshape(len(_ODDS), -1)
        cells = np.minimum((chances * _CELLS).astype(np.int64), _CELLS - 1)
        each = [_mean_log(by_odds[:, cells == cell].sum(axis=1)) for cell in range(_CELLS)]
        rules = self._rule_log_e(open_, yes, no)
        bets = np.array([rules, _mean_log(by_odds.sum(axis=1)), sum(each)])
        return float(log_mixture(bets, _ACCEPT_SHARES))

    def _rule_log_e(self, tokens: Ints, yes: Ints, no: Ints) -> float:
        chances, gains, weights = self._chances[tokens], [], []
        for rule in self._rules:
            for mix, weight in _DILUTIONS:
                mixed = (1 - mix) * chances + mix * rule[tokens]
                gains.append(
                    np.sum(yes * np.log(mixed / chances))
                    + np.sum(no * np.log((1 - mixed) / (1 - chances)))
                )
                weights.append(weight / len(self._rules))
        return float(log_mixture(np.array(gains), np.array(weights)))


def _mean_log(log_e: Floats) -> float:
    return float(logsumexp(log_e) - np.log(len(log_e)))
