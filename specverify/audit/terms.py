"""On which terms checks are judged: levels, confidence and samples, all fixed before sampling."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from specverify.results import Interval, Verdict

__all__ = ["BETTING_SHARE", "LOOKS", "SUSPICIOUS", "Terms"]

BETTING_SHARE = 0.5
"""Share of the false-alarm level that the bets have, which are looked at after every shard; the
fixed looks have the rest."""

LOOKS = 4
"""The data are looked at this often at most; each look has its own share of the level."""

SUSPICIOUS = 1e-4
"""A check passes only above this asymptotic p-value; below it sampling goes on."""

_SUSPICIOUS_E = 100.0
"""A check passes only below this e-value; above it sampling goes on."""


@dataclass(frozen=True, kw_only=True)
class Terms:
    """Terms of one look.

    Attributes:
        n: Completions planned for the look, a scenario.
        tests: Tests of one family over all scenarios and looks that share ``false_alarm`` with
            the bets.
        bets: E-values of the family over all scenarios that share it.
        false_alarm: Level of the whole family of tests.
        confidence: Coverage of each bound on the total variation, so that all of them hold
            together at 95 %.
        power: Power of every detectable distance.
        tv: Largest total variation that a pass may leave open.
        seed: Root seed, for replaying.
        tolerance: Total variation by which the laws themselves may be off.
    """

    n: int
    tests: int
    bets: int
    false_alarm: float
    confidence: float
    power: float
    tv: float
    seed: int
    tolerance: float = 0.0

    @property
    def level(self) -> float:
        """Level of one test."""
        return self.false_alarm * (1 - BETTING_SHARE) / self.tests

    @property
    def log_e_threshold(self) -> float:
        """Logarithm of the e-value that refutes the law: Bonferroni over the family's e-values."""
        return math.log(self.bets / (self.false_alarm * BETTING_SHARE))

    def adjusted(
        self, p_value: float, log_e: float = -math.inf, *, tolerant: bool = False
    ) -> float:
        """Bonferroni over the family: a fixed look's p-value or the bets' e-value.

        Args:
            p_value: Valid p-value of one test.
            log_e: Logarithm of one e-value, if there is one.
            tolerant: Whether the p-value holds for every law within the tolerance.

        Returns:
            To be compared with the level of the whole family, ``false_alarm``.
        """
        looked = p_value * self.tests / (1 - BETTING_SHARE)
        bet = math.exp(min(0.0, math.log(self.bets / BETTING_SHARE) - log_e))
        # A law that is known up to a tolerance is refuted in the end by every exact test.
        exact = self.tolerance and not tolerant
        return min(1.0, bet) if exact else min(1.0, looked, bet)

    def suspects(self, log_e: float) -> bool:
        """Whether an e-value says that sampling should go on."""
        return log_e >= math.log(_SUSPICIOUS_E)

    def widened(self, tv: Interval) -> Interval:
        """Bounds on the distance from a law that may itself be off by the tolerance."""
        low = None if tv.low is None else max(0.0, tv.low - self.tolerance)
        high = None if tv.high is None else min(1.0, tv.high + self.tolerance)
        return replace(tv, low=low, high=high)

    def verdict(
        self,
        p_value: float,
        chi_square_p: float,
        tv: Interval | None = None,
        *,
        log_e: float = -math.inf,
        tolerant: bool = False,
    ) -> Verdict:
        """Verdict of a check of the law.

        Args:
            p_value: Valid p-value, not yet adjusted.
            chi_square_p: Asymptotic one: too lax to fail by, sharp enough to doubt by.
            tv: The distance, widened, where a pass must bound it.
            log_e: Logarithm of the e-value of the bets.
            tolerant: Whether the p-value holds for every law within the tolerance.

        Returns:
            ``fail`` at the audit's level; ``inconclusive`` where the counts are suspicious or the
            distance is not bounded yet, so that sampling goes on; else ``pass``.
        """
        if self.adjusted(p_value, log_e, tolerant=tolerant) <= self.false_alarm:
            return Verdict.FAIL
        if self.suspects(log_e) or (chi_square_p <= SUSPICIOUS and not self.tolerance):
            return Verdict.INCONCLUSIVE
        bounded = tv is None or (tv.high is not None and tv.high <= self.tv)
        return Verdict.PASS if bounded else Verdict.INCONCLUSIVE

    def replay(self, scenario: str) -> dict[str, Any]:
        """Arguments that run one scenario again."""
        return {"scenario": scenario, "seed": self.seed, "n": self.n}
