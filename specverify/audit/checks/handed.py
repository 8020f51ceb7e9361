"""On which side the law breaks: what an engine's own verification was handed."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from specverify.audit.evidence import Stratum, weigh
from specverify.audit.handed import DRAFTS, GREEDY, HANDED_BINS, MICRO_TV, ROWS
from specverify.audit.tally import Tally
from specverify.results import Finding

__all__ = ["HANDED_CODES", "handed_findings"]

_LEVEL = 1e-6
"""Level that the transforms of drafts, in two orders, and their being most probable share."""

HANDED_CODES = ("drafts-scored-with-another-law", "target-rows-differ", "draft-rows-differ")
"""Codes of these findings."""


def handed_findings(tallies: Iterable[Tally]) -> list[Finding]:
    """What verification was handed that it should not have been; nothing where nothing was heard.

    Args:
        tallies: Of all scenarios.
    """
    seen = [tally for tally in tallies if tally.get(DRAFTS) is not None]
    if not seen:
        return []
    found = [_drafts(seen), _rows(seen, 0), _rows(seen, 1)]
    return [finding for finding in found if finding is not None]


def _drafts(tallies: list[Tally]) -> Finding | None:
    """Whether drafts follow the law that they are scored with."""
    counts = np.sum([tally.arrays[DRAFTS] for tally in tallies], axis=0)
    even = np.full(HANDED_BINS, 1 / HANDED_BINS)
    soft, likeliest, nats = np.sum([tally.arrays[GREEDY] for tally in tallies], axis=0).tolist()
    all_likeliest = float(np.exp(-nats / MICRO_TV)) if likeliest == soft else 1.0
    p_value = 3 * min(all_likeliest, *(weigh([Stratum(row, even)]).p_value for row in counts))
    if p_value > _LEVEL:
        return None
    text = "drafts do not follow the draft law that verification scores them with"
    data = {"p_value": p_value, "drafts": int(counts[0].sum()), "soft": soft}
    data["most_probable"] = likeliest
    if soft and likeliest == soft:
        text += ": each is its most probable token, as of argmax_draft"
        data["consistent_with"] = "argmax_draft"
    return Finding(code=HANDED_CODES[0], text=text, data=data)


def _rows(tallies: list[Tally], side: int) -> Finding | None:
    """Whether the rows of a side are those that weights and settings make."""
    rows, differing, distance = np.sum([tally.arrays[ROWS] for tally in tallies], axis=0)[side]
    if not differing:
        return None
    mean = float(distance / MICRO_TV / rows)
    whose = ("target", "draft")[side]
    text = (
        f"{differing:,} of {rows:,} {whose} rows handed to verification are not what its weights "
        f"and the settings make of the text (total variation {mean:.2g} on average): a transform "
        f"of the {whose}'s side is missing, doubled or out of step"
    )
    data = {"rows": int(rows), "differing": int(differing), "mean_tv": mean}
    return Finding(code=HANDED_CODES[1 + side], text=text, data=data)
