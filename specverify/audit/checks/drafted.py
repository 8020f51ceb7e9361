"""Whether a loop's rounds draft as many tokens as were asked of it."""

from __future__ import annotations

from collections.abc import Mapping

from specverify.audit.scenarios import Scenario
from specverify.audit.tally import Tally
from specverify.audit.terms import Terms
from specverify.results import CheckResult, Diagnosis, Family, Finding, Verdict

__all__ = ["DRAFTED", "check_drafted", "drafted_finding"]

DRAFTED = "drafted"
"""Table of rounds with room for a whole block: those that drafted one, and the others."""


def check_drafted(scenario: Scenario, tally: Tally, terms: Terms) -> list[CheckResult]:
    """The failed check of a loop that drafts another number of tokens; else nothing.

    Rounds of another size than ``gamma`` are not counted in lengths and acceptance: without this
    check a loop that drafts less than it is asked to would be as fast as expected.

    Args:
        scenario: The models.
        tally: The counts.
        terms: For replaying.
    """
    whole, others = _rounds(tally)
    if not others:
        return []
    text = f"{others} of {whole + others} rounds with room for {scenario.gamma} drafts had others"
    return [
        CheckResult(
            name=f"drafted[{scenario.name}]",
            family=Family.EFFICIENCY,
            verdict=Verdict.FAIL,
            params=scenario.params() | {"rounds_as_asked": whole, "rounds_of_another_size": others},
            n=whole + others,
            message=text,
            diagnosis=Diagnosis(text=text, stage="draft"),
            replay=terms.replay(scenario.name),
        )
    ]


def drafted_finding(tallies: Mapping[str, Tally]) -> Finding | None:
    """What the failed checks say together."""
    found = {name: _rounds(tally) for name, tally in tallies.items()}
    others = {name: {"whole": w, "others": o} for name, (w, o) in found.items() if o}
    if not others:
        return None
    text = "rounds draft another number of tokens than asked: their speed is not judged"
    return Finding(code="other-draft-length", text=text, data=others)


def _rounds(tally: Tally) -> tuple[int, int]:
    table = tally.get(DRAFTED)
    return (0, 0) if table is None else (int(table[0]), int(table[1]))
