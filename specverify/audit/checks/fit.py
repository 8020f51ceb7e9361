"""A fit too good to be true: draws that are no independent draws, whoever made them so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from specverify.audit.evidence import Stratum, fit_p_value
from specverify.audit.terms import Terms
from specverify.results import Verdict

__all__ = ["TOO_GOOD", "Fit"]

TOO_GOOD = "too_good"
"""Key under which a check's parameters say so."""


@dataclass(frozen=True, kw_only=True)
class Fit:
    """How well counts fit, seen from the good side.

    Attributes:
        p_value: How rarely honest draws fit as well or better.
        too_good: Whether that is out of the question at the level of the audit's tests.
    """

    p_value: float
    too_good: bool

    @classmethod
    def of(cls, strata: Sequence[Stratum], terms: Terms) -> Fit:
        """The fit of independent strata."""
        p_value = fit_p_value(strata)
        return cls(p_value=p_value, too_good=p_value <= terms.level)

    def judged(self, verdict: Verdict) -> Verdict:
        """The verdict; nothing passes on draws that are none."""
        return Verdict.INCONCLUSIVE if self.too_good and verdict is Verdict.PASS else verdict

    def params(self) -> dict[str, object]:
        """Record for ``result.json``."""
        found: dict[str, object] = {"fit_p": self.p_value}
        return found | ({TOO_GOOD: True} if self.too_good else {})

    @property
    def text(self) -> str:
        """What to add to the message; empty for an ordinary fit."""
        if not self.too_good:
            return ""
        return f"; fits too well (p = {self.p_value:.1e}): these are no independent draws"
