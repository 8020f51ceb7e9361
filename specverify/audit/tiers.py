"""What an audit can know of an implementation, the best first; each tier has its own verdict."""

from __future__ import annotations

import math
from enum import StrEnum
from typing import Any

from specverify.audit.terms import Terms
from specverify.results import Interval, Verdict
from specverify.stats.context import Evidence

__all__ = ["Tier", "completions_text", "outlook", "told"]


_TOLD = 5
"""Hypotheses whose shares are recorded."""


class Tier(StrEnum):
    """The data behind a check."""

    TRACE = "kernel trace"
    BOTH = "tokens with both laws"
    TARGET = "tokens with the target's law"
    SAMPLES = "two samples"


def told(tier: Tier, bet: Evidence, terms: Terms) -> dict[str, Any]:
    """What a check's parameters say of its data, of its bets and of the tolerance."""
    shares = sorted(bet.shares.items(), key=lambda item: -item[1])
    record: dict[str, Any] = {"tier": str(tier), "shares": dict(shares[:_TOLD])}
    return record | ({"tolerance": terms.tolerance} if terms.tolerance else {})


def outlook(
    verdict: Verdict, terms: Terms, done: int, *, log_e: float, tv: Interval | None = None
) -> str:
    """What to add to the message of a check that is not decided: why, and what would decide it.

    Args:
        verdict: The check's verdict.
        terms: Terms of this look.
        done: Completions drawn.
        log_e: Logarithm of the e-value.
        tv: The distance, where a pass must bound it.

    Returns:
        Text that begins with a semicolon; empty for other verdicts. Both estimates hold if things
        go on as they went: evidence grows, and a bound shrinks, with the completions.
    """
    if verdict is not Verdict.INCONCLUSIVE or not done:
        return "; nothing was sampled" if verdict is Verdict.INCONCLUSIVE else ""
    if terms.suspects(log_e):
        needed = done * (terms.log_e_threshold / log_e - 1)
        return f"; suspicious (e = {math.exp(log_e):.2g}): {completions_text(needed)} may refute it"
    if tv is not None and tv.high is not None and tv.high > terms.tv > terms.tolerance:
        free = max(tv.high - terms.tolerance, 1e-9)
        needed = done * ((free / (terms.tv - terms.tolerance)) ** 2 - 1)
        return f"; {completions_text(needed)} are needed to bound it by {terms.tv:g}"
    if tv is not None and terms.tolerance >= terms.tv:
        return f"; no number of completions bounds it by {terms.tv:g} beside that tolerance"
    needed = done
    return f"; suspicious (chi-square): {completions_text(needed)} would tell"


def completions_text(needed: float) -> str:
    """A number of completions with two digits: more would be pretended."""
    size = 10 ** max(0, math.floor(math.log10(max(needed, 1))) - 1)
    return f"about {max(1, math.ceil(needed / size - 1e-9)) * size:,} more completions"
