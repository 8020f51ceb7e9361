"""Proofs that stand no longer, because the tracer was deceived in another scenario."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from specverify.audit.checks.exact import record_of
from specverify.audit.exact_record import DISCARDED, LOSSLESS, ExactRecord
from specverify.audit.tally import Tally

__all__ = ["withdrawn"]

_CHANGED = "not-reproducible"


def withdrawn(tallies: Mapping[str, Tally]) -> dict[str, Tally]:
    """What is left of the scenarios whose proof is void.

    Code that behaves otherwise while it is traced, or that keeps state from call to call, may do so
    in every scenario: a sample that confirms a traced law sees gross differences alone.

    Args:
        tallies: Counts and records by scenario, once everything is traced.

    Returns:
        By scenario a tally of the discarded record, and of answers that a seed did not fix: the
        law is left to samples, counted from the first, as in any scenario that is not traced.
    """
    records = {
        name: record for name, tally in tallies.items() if (record := record_of(tally)) is not None
    }
    deceived = next((name for name, record in records.items() if record.deceived), None)
    if deceived is None:
        return {}
    return {
        name: _without_proof(tallies[name], record, deceived)
        for name, record in records.items()
        if record.outcome == LOSSLESS
    }


def _without_proof(tally: Tally, record: ExactRecord, deceived: str) -> Tally:
    reason = f"in {deceived} the code is not the same from call to call, or while it is traced"
    left = ExactRecord(
        outcome=DISCARDED, reason=reason, n=record.n, p_value=record.p_value, seconds=record.seconds
    )
    kept = Tally()
    kept.note("exact", msgspec.to_builtins(left))
    kept.table("repeats", (2,))[:] = tally.table("repeats", (2,))
    if _CHANGED in tally.cases:
        kept.note(_CHANGED, tally.cases[_CHANGED])
    return kept
