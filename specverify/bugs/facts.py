"""What is known of a member of the zoo before anything is sampled."""

from __future__ import annotations

from dataclasses import dataclass

from specverify.bugs.base import Bug, Kind, Role
from specverify.bugs.laws import both_laws, law_distance
from specverify.bugs.runs import identities_broken_by
from specverify.bugs.scenes import SCENES

__all__ = ["LEVEL", "Facts", "facts"]

LEVEL = 1e-6
"""False-alarm level that the samples refer to."""

_BLIND = 1e-12
_OBSERVED = {
    Kind.VERIFY: "blocks",
    Kind.BATCHED: "batches",
    Kind.DECODE: "completions",
    Kind.COUNTER: "reports",
}


@dataclass(frozen=True, kw_only=True)
class Facts:
    """Distance, samples, and what sees it.

    Attributes:
        tv: Exact total variation of the law emitted on the member's scene; None of a counter.
        samples: Observations that the oracle needs at :data:`LEVEL`; None where the law is right.
        observed: What is counted: blocks, batches, completions or reports.
        seen_by: Where the law is blind, the check that sees it; of a counter, the identities that
            its report breaks; empty where nothing is to be seen.
    """

    tv: float | None
    samples: float | None
    observed: str
    seen_by: str


def facts(bug: Bug) -> Facts:
    """Enumerate what a member emits on its own scene, once, and compare it with the target's law.

    Args:
        bug: The member.
    """
    observed = _OBSERVED[bug.kind]
    if bug.kind is Kind.COUNTER:
        broken = ", ".join(identities_broken_by(bug))
        return Facts(tv=None, samples=1.0, observed=observed, seen_by=f"breaks: {broken}")
    # A batched member brings its own rows; any scene does.
    laws = both_laws(bug, SCENES.get(bug.scene, SCENES["P1"]))
    distance = law_distance(*laws)
    if distance >= _BLIND:
        return Facts(tv=distance, samples=laws.samples(LEVEL), observed=observed, seen_by="law")
    seen_by = "" if bug.role is Role.CONTROL else bug.expected_check
    return Facts(tv=0.0, samples=None, observed=observed, seen_by=seen_by)
