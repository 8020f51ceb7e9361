"""An engine whose target law nobody knows, against its own non-speculative output."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from specverify.audit.arms import ARMS, Ints
from specverify.audit.engines import EngineScenario
from specverify.audit.evidence import detectable_tv
from specverify.audit.tally import Tally
from specverify.audit.terms import Terms
from specverify.audit.tiers import Tier, outlook
from specverify.results import CheckResult, Diagnosis, Family, Interval, Verdict
from specverify.stats.bets import capped_e_value
from specverify.stats.context import Evidence
from specverify.stats.power import tv_upper_bound
from specverify.stats.tails import chi2_sf

__all__ = ["applies", "check_two_samples"]

_MIN_EXPECTED = 5.0


def applies(tally: Tally) -> bool:
    """Whether two samples were drawn."""
    return tally.get("arms") is not None


def check_two_samples(
    scenario: EngineScenario, tally: Tally, terms: Terms, *, bet: Evidence
) -> CheckResult:
    """Compare the completions of both arms by bets on swaps, and each position's tokens.

    Args:
        scenario: The setting.
        tally: The counts.
        terms: Terms of this look.
        bet: Evidence of the bets on swaps.

    Returns:
        ``two-sample[scenario]``. It fails by the bets alone; the distance is that of a position's
        token given the prompt, over 64 cells of ids.
    """
    table = tally.arrays["arms"]
    positions = [_compare(table[:, :, i]) for i in range(scenario.length)]
    tv = terms.widened(_distance(positions, terms))
    doubt = min(len(positions) * position.p_value for position in positions)
    verdict = terms.verdict(1.0, doubt, tv, log_e=bet.log_e)
    first = positions[0]
    found = detectable_tv(round(first.n), max(first.dof, 1), terms.level, power=terms.power)
    done = int(table[0, :, 0].sum())
    worst = int(np.argmin([position.p_value for position in positions]))
    failed = verdict is Verdict.FAIL
    text = f"speculative and plain output differ, most at position {worst} of the completion"
    bound = f"total variation at most {tv.high:.3g} between speculative and plain output"
    return CheckResult(
        name=f"two-sample[{scenario.name}]",
        family=Family.LAW,
        verdict=verdict,
        params=scenario.params()
        | {"tier": str(Tier.SAMPLES), "dof": first.dof, "allowed_tv": terms.tv, "arms": ARMS},
        n=int(table.sum()),
        statistic=positions[worst].statistic,
        e_value=capped_e_value(bet.log_e),
        p_adjusted=terms.adjusted(1.0, bet.log_e),
        tv=tv,
        detectable_tv=found,
        power=terms.power,
        message=(text if failed else f"{bound} at any position; {found:.3g} would have been found")
        + outlook(verdict, terms, done, log_e=bet.log_e, tv=tv)
        + f" ({Tier.SAMPLES})",
        diagnosis=Diagnosis(text=text, position=worst) if failed else None,
        replay=terms.replay(scenario.name),
    )


@dataclass(frozen=True, kw_only=True)
class _Comparison:
    """Homogeneity chi-square of one position, prompts as strata; ``n`` in one-sample terms."""

    statistic: float
    dof: int
    n: float

    @property
    def p_value(self) -> float:
        return chi2_sf(self.statistic, self.dof) if self.dof else 1.0


def _compare(table: Ints) -> _Comparison:
    """Compare the arms, counts of shape ``(2, prompts, cells)``."""
    statistic, dof, n = 0.0, 0, 0.0
    for first, second in zip(*table, strict=True):
        sizes = float(first.sum()), float(second.sum())
        if not min(sizes):
            continue
        merged = _pooled(first, second)
        total = merged.sum(axis=0)
        # Two samples of n and m know a distance as well as one of n m / (n + m) and a known law.
        effective = sizes[0] * sizes[1] / sum(sizes)
        gaps = merged[0] / sizes[0] - merged[1] / sizes[1]
        statistic += float(np.sum(effective * gaps**2 / (total / sum(sizes))))
        dof, n = dof + len(total) - 1, n + effective
    return _Comparison(statistic=statistic, dof=dof, n=n)


def _pooled(first: Ints, second: Ints) -> Ints:
    """Both arms in cells that the smaller one is expected in often enough; the rest in one."""
    total = first + second
    part = min(first.sum(), second.sum()) / total.sum()
    often = total * part >= _MIN_EXPECTED
    rest = [[int(arm[~often].sum())] for arm in (first, second)]
    merged = np.concatenate([np.array([first[often], second[often]]), np.array(rest)], axis=1)
    kept: Ints = merged[:, merged.sum(axis=0) > 0]
    return kept


def _distance(positions: list[_Comparison], terms: Terms) -> Interval:
    """The largest distance of a position, bounded at all of them together."""
    confidence = 1 - (1 - terms.confidence) / len(positions)
    seen = [p for p in positions if p.n and p.dof]
    if not seen:
        return Interval(estimate=0.0, low=0.0, high=1.0, confidence=terms.confidence)
    bounds = [tv_upper_bound(p.statistic, p.dof, max(1, int(p.n)), confidence) for p in seen]
    excess = [math.sqrt(max(0.0, p.statistic - p.dof) / p.n) / 2 for p in seen]
    high = min(1.0, max(bounds))
    estimate = min(high, max(excess))
    return Interval(estimate=estimate, low=0.0, high=high, confidence=terms.confidence)
