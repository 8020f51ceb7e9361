"""One run whose every pass is known, for counters to report on."""

from __future__ import annotations

import numpy as np

from specverify.bugs.base import Bug
from specverify.bugs.counters import PassRecord, broken_identities

__all__ = ["KNOWN_RUN", "KNOWN_TEMPERATURE", "identities_broken_by"]

_LAWS = np.array([[0.5, 0.3, 0.2], [0.1, 0.2, 0.7], [0.4, 0.4, 0.2]])

KNOWN_RUN = (
    PassRecord(flags=(True, True), emitted=(0, 2, 1), kept=3, laws=_LAWS),
    PassRecord(flags=(False, True), emitted=(1,), kept=1, laws=_LAWS[:1]),
    PassRecord(flags=(True, False), emitted=(2, 0), kept=1, laws=_LAWS[:2]),
)
"""Two of two drafts accepted and a bonus; none accepted; one accepted, and the text ends with it:
nothing that a counter may get wrong is missing."""

KNOWN_TEMPERATURE = 0.7
"""The run was sampled at another temperature than 1, so that log probabilities differ."""


def identities_broken_by(counter: Bug) -> list[str]:
    """Identities and quantities that a counter's report of :data:`KNOWN_RUN` breaks."""
    report = counter.callable(KNOWN_RUN, temperature=KNOWN_TEMPERATURE)
    return broken_identities(report, KNOWN_RUN, temperature=KNOWN_TEMPERATURE)
