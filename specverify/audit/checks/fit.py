"""A fit too good to be true: draws that are no independent draws, whoever made them so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from specverify.audit.cells import merge, token_cells
from specverify.audit.evidence import Stratum, fit_p_value, fit_statistic
from specverify.audit.terms import Terms
from specverify.results import CheckResult, Family, Verdict

__all__ = ["TOO_GOOD", "Fit", "doubted", "fine_cells"]

TOO_GOOD = "too_good"
"""Key under which a check's parameters say so."""


_COUPLED = "these are no independent draws"
_MIN_EXPECTED = 5.0
_MAX_CELLS = 512


def fine_cells(
    counts: NDArray[np.int64], target: NDArray[np.float64], draft: NDArray[np.float64]
) -> Stratum:
    """Counts of one law in as many cells as their number allows: luck is spread over them.

    Args:
        counts: Occurrences of each outcome, any number of axes flattened.
        target: Their law.
        draft: The draft's, by which outcomes are merged.
    """
    n = int(counts.sum())
    cells = token_cells(target, draft, n, min_expected=_MIN_EXPECTED, max_cells=_MAX_CELLS)
    return Stratum(merge(counts, cells).astype(np.int64), merge(target, cells))


@dataclass(frozen=True, kw_only=True)
class Fit:
    """How well counts fit, seen from the good side.

    Attributes:
        statistic: Chi-square of :func:`specverify.audit.evidence.fit_statistic`.
        dof: Its degrees of freedom.
        too_good: Whether honest draws are out of the question at the level of the audit's tests.
    """

    statistic: float
    dof: int
    too_good: bool

    @classmethod
    def of(cls, strata: Sequence[Stratum], terms: Terms) -> Fit:
        """The fit of independent strata in fine cells: :func:`fine_cells`."""
        statistic, dof = fit_statistic(strata)
        too_good = fit_p_value(statistic, dof) <= terms.level
        return cls(statistic=statistic, dof=dof, too_good=too_good)

    def judged(self, verdict: Verdict) -> Verdict:
        """The verdict; nothing passes on draws that are none."""
        return Verdict.INCONCLUSIVE if self.too_good and verdict is Verdict.PASS else verdict

    def params(self) -> dict[str, object]:
        """Record for ``result.json``."""
        found: dict[str, object] = {"fit_statistic": self.statistic, "fit_dof": self.dof}
        return found | ({TOO_GOOD: True} if self.too_good else {})

    @property
    def text(self) -> str:
        """What to add to the message; empty for an ordinary fit."""
        if not self.too_good:
            return ""
        p_value = fit_p_value(self.statistic, self.dof)
        return f"; fits too well (p = {p_value:.1e}): {_COUPLED}"


def doubted(checks: Sequence[CheckResult], level: float) -> list[CheckResult]:
    """Withdraw passes where the checks of all scenarios together fit too well.

    Args:
        checks: Checks of an audit, or of a part of it.
        level: Level of the one test that is made here.

    Returns:
        The checks, in their order. What a stratifier hides in one scenario adds up over all.
    """
    law = [c for c in checks if c.family is Family.LAW and c.params.get("fit_dof")]
    # One check a scenario: its tokens and its completions are the same draws.
    apart = {str(check.params["scenario"]): check for check in law}.values()
    statistic = sum(float(check.params["fit_statistic"]) for check in apart)
    p_value = fit_p_value(statistic, sum(int(check.params["fit_dof"]) for check in apart))
    if p_value > level:
        return list(checks)
    text = f"; all together fit too well (p = {p_value:.1e}): {_COUPLED}"
    return [_withdrawn(check, text) if check in law else check for check in checks]


def _withdrawn(check: CheckResult, text: str) -> CheckResult:
    if check.verdict is not Verdict.PASS:
        return check
    params = check.params | {TOO_GOOD: True}
    message = check.message + text
    return replace(check, verdict=Verdict.INCONCLUSIVE, params=params, message=message)
