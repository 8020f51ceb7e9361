"""How much a self-test spends."""

from __future__ import annotations

from dataclasses import dataclass

from specverify.bugs.facts import LEVEL

__all__ = ["DEFAULT", "LEVEL", "THOROUGH", "Settings"]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Sizes of a self-test.

    Attributes:
        tv: Total variation that the audits leave open; it decides how long controls are sampled.
        scenarios: Suite of the audits.
        runs: Runs of the e-process behind each median.
        large_vocab: Vocabulary on which the closed-form laws are bet against too; 0 for none.
        replications: Seeds under which every control is audited.
    """

    tv: float
    scenarios: str
    runs: int
    large_vocab: int = 0
    replications: int = 1


DEFAULT = Settings(tv=0.1, scenarios="default", runs=5)
THOROUGH = Settings(tv=0.03, scenarios="thorough", runs=101, large_vocab=4096, replications=3)
