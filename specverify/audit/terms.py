"""On which terms checks are judged: levels, confidence and samples, all fixed before sampling."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from specverify.results import Interval, Verdict

__all__ = ["BETTING_SHARE", "LOOKS", "SUSPICIOUS", "Terms"]

BETTING_SHARE = 0.5
"""Share of the false-alarm level that the bets have, which are looked at after every shard; the
fixed looks have the rest."""

LOOKS = 4
"""The data are looked at this often at most; each look has its own share of the level."""

SUSPICIOUS = 1e-4
"""A check passes only above this asymptotic p-value; below it sampling goes on."""


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
    """

    n: int
    tests: int
    bets: int
    false_alarm: float
    confidence: float
    power: float
    tv: float
    seed: int

    @property
    def level(self) -> float:
        """Level of one test."""
        return self.false_alarm * (1 - BETTING_SHARE) / self.tests

    @property
    def log_e_threshold(self) -> float:
        """Logarithm of the e-value that refutes the law: Bonferroni over the family's e-values."""
        return math.log(self.bets / (self.false_alarm * BETTING_SHARE))

    def adjusted(self, p_value: float) -> float:
        """Bonferroni over every test of the family, and over the bets' share of the level."""
        return min(1.0, p_value * self.tests / (1 - BETTING_SHARE))

    def verdict(self, p_value: float, chi_square_p: float, tv: Interval | None = None) -> Verdict:
        """Verdict of a check of the law.

        Args:
            p_value: Valid p-value, not yet adjusted.
            chi_square_p: Asymptotic one: too lax to fail by, sharp enough to doubt by.
            tv: The distance, where a pass must bound it.

        Returns:
            ``fail`` at the audit's level; ``inconclusive`` where the counts are suspicious or the
            distance is not bounded yet, so that sampling goes on; else ``pass``.
        """
        if self.adjusted(p_value) <= self.false_alarm:
            return Verdict.FAIL
        if chi_square_p <= SUSPICIOUS:
            return Verdict.INCONCLUSIVE
        bounded = tv is None or (tv.high is not None and tv.high <= self.tv)
        return Verdict.PASS if bounded else Verdict.INCONCLUSIVE

    def replay(self, scenario: str) -> dict[str, Any]:
        """Arguments that run one scenario again."""
        return {"scenario": scenario, "seed": self.seed, "n": self.n}
