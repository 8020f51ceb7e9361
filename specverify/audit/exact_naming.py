"""Known bugs whose exact law is the one that was traced, in every scenario compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from specverify.audit.checks.exact import is_exact, record_of
from specverify.audit.tally import Tally
from specverify.results import CheckResult, Diagnosis, Verdict

__all__ = ["named"]


def named(checks: Sequence[CheckResult], tallies: Mapping[str, Tally]) -> tuple[CheckResult, ...]:
    """Name the known bugs that fit in the diagnoses of failed exact checks.

    Args:
        checks: Checks of an audit.
        tallies: Counts and records by scenario.
    """
    broken = [c for c in checks if is_exact(c) and c.verdict is Verdict.FAIL]
    if not broken:
        return tuple(checks)
    records = [record for t in tallies.values() if (record := record_of(t)) is not None]
    compared = [record.fits for record in records if record.fits is not None]
    fits = [name for name in compared[0] if all(name in c for c in compared)] if compared else []
    return tuple(_told(c, fits, compared) if c in broken else c for c in checks)


def _told(
    check: CheckResult, fits: Sequence[str], compared: Sequence[tuple[str, ...]]
) -> CheckResult:
    known = check.diagnosis or Diagnosis(text="")
    if not compared or known.text.startswith("it raises"):
        return check
    if not fits:
        text = f"{known.text}; its law is that of no known bug"
        return replace(check, diagnosis=replace(known, text=text))
    from specverify.bugs import ZOO

    stage = str(ZOO[fits[0]].stage)
    others = f" (and with {', '.join(fits[1:])})" if fits[1:] else f" ({ZOO[fits[0]].mathematics})"
    return replace(
        check,
        diagnosis=Diagnosis(
            text=f"{known.text}; stage: {stage}; consistent with {fits[0]}{others}",
            consistent_with=fits[0],
            stage=stage,
            position=known.position,
            siblings=tuple(fits[1:]),
        ),
    )
