"""In which ways each kind of member is looked at, the cheapest first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from specverify.bugs import Bug, Effect, Kind, Stage
from specverify.selftest.audits import Audit
from specverify.selftest.contexts import audit_as_engine
from specverify.selftest.exactly import enumerate_member
from specverify.selftest.injection import inject
from specverify.selftest.outcome import Sighting
from specverify.selftest.reports import check_report
from specverify.selftest.settings import Settings

__all__ = ["Way", "ways_of"]

Way: TypeAlias = Callable[[Bug, Settings, int], Sighting]

_QUICK = Audit(gammas=(3,))
_WHOLE = Audit()

_WAYS: dict[Kind, tuple[Way, ...]] = {
    Kind.VERIFY: (_QUICK, enumerate_member, inject, _WHOLE),
    Kind.BATCHED: (_QUICK, _WHOLE),
    Kind.DECODE: (_QUICK, audit_as_engine, enumerate_member, _WHOLE),
    Kind.COUNTER: (check_report,),
}
# Roundings below 1e-3 are for the exact law; where only the speed changes, models that look one
# token back say little.
_FIRST: dict[Stage | Effect, Way] = {
    Stage.NUMERICS: enumerate_member,
    Effect.EFFICIENCY: audit_as_engine,
}


def ways_of(bug: Bug) -> Sequence[Way]:
    """The ways in which a member is looked at, in their order.

    A bug is looked at until it is caught, a control in every way. Nothing here knows a member by
    its name: kind, stage and effect decide.
    """
    ways = _WAYS[bug.kind]
    preferred = [way for key in (bug.stage, bug.effect) if (way := _FIRST.get(key)) in ways]
    return tuple(dict.fromkeys([*filter(None, preferred), *ways]))
