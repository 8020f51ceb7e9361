"""What an engine counts of its drafts, whether or not anyone can predict it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from specverify.audit.forms import Completions
from specverify.audit.tally import Tally
from specverify.results import Finding

__all__ = ["count_drafts", "draft_numbers", "nothing_drafted"]

_KEY = "drafts"


def count_drafts(tally: Tally, drawn: Completions) -> None:
    """Add the drafts of completions that come with their counts."""
    if drawn.drafted is None or drawn.accepted is None:
        return
    passes = 0 if drawn.passes is None else int(drawn.passes.sum())
    emitted = 0 if drawn.passes is None else int((drawn.tokens >= 0).sum())
    table = tally.table(_KEY, (5,))
    counts = len(drawn.tokens), drawn.drafted.sum(), drawn.accepted.sum(), passes, emitted
    table += [int(count) for count in counts]


def draft_numbers(tally: Tally) -> dict[str, Any]:
    """Drafted and accepted tokens, what part was accepted, and tokens a pass; empty if unknown."""
    table = tally.get(_KEY)
    if table is None or not table[0]:
        return {}
    _, drafted, accepted, passes, emitted = (int(total) for total in table)
    numbers: dict[str, Any] = {"drafted": drafted, "accepted": accepted}
    if drafted:
        numbers["accepted_over_drafted"] = accepted / drafted
    if passes:
        numbers["tokens_per_pass"] = emitted / passes
    return numbers


def nothing_drafted(tallies: Iterable[Tally]) -> Finding | None:
    """A finding where drafts are counted and there were none at all."""
    counted = [table for tally in tallies if (table := tally.get(_KEY)) is not None and table[0]]
    if not counted or any(table[1] for table in counted):
        return None
    n = sum(int(table[0]) for table in counted)
    text = (
        f"not one draft in {n} completions: speculation is off, the engine refused its draft "
        "(its log says so), or n-grams found no repeat"
    )
    return Finding(code="nothing-drafted", text=text)
