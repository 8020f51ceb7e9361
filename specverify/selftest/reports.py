"""Counters: what they report of a run whose passes are known."""

from __future__ import annotations

from specverify.bugs import Bug
from specverify.bugs.runs import KNOWN_RUN, identities_broken_by
from specverify.results import Verdict
from specverify.selftest.outcome import Sighting
from specverify.selftest.settings import Settings

__all__ = ["check_report"]


def check_report(bug: Bug, _settings: Settings, _seed: int) -> Sighting:
    """Compare a counter's report with the run."""
    broken = identities_broken_by(bug)
    return Sighting(
        verdict=Verdict.FAIL if broken else Verdict.PASS,
        way="identities",
        check=", ".join(broken),
        calls=len(KNOWN_RUN),
    )
