"""In which ways each kind of member is looked at, the cheapest audit first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from specverify.bugs import Bug, Effect, Kind, Role, Stage
from specverify.selftest.audits import Audit
from specverify.selftest.exactly import enumerate_member
from specverify.selftest.injection import inject
from specverify.selftest.outcome import Sighting
from specverify.selftest.reports import check_report
from specverify.selftest.settings import Settings

__all__ = ["Way", "ways_of"]

Way: TypeAlias = Callable[[Bug, Settings, int], Sighting]

_QUICK = Audit(gammas=(3,))
_BACK = Audit(gammas=(2,))
"""Loops over models that look two tokens back."""
_WHOLE = Audit()
_PARTS = (_QUICK, _BACK)

_WAYS: dict[Kind, tuple[Way, ...]] = {
    Kind.VERIFY: (_QUICK, _WHOLE, enumerate_member, inject),
    Kind.BATCHED: (_QUICK, _WHOLE),
    Kind.DECODE: (_QUICK, _BACK, _WHOLE, enumerate_member),
    Kind.COUNTER: (check_report,),
}
# Roundings below 1e-3 are for the exact law; a broken interface needs no samples; where only the
# speed changes, models that look one token back say little.
_FIRST: dict[Stage | Effect, Way] = {
    Stage.NUMERICS: enumerate_member,
    Effect.CONTRACT: inject,
    Effect.EFFICIENCY: _BACK,
}


def ways_of(bug: Bug) -> Sequence[Way]:
    """The ways in which a member is looked at, in their order.

    A bug is looked at until it is caught, a control in every way: the short audits, which are
    parts of the whole one, are left out. Nothing here knows a member by its name: kind, stage,
    effect and role decide.
    """
    short = bug.role is Role.BUG
    ways = tuple(way for way in _WAYS[bug.kind] if short or way not in _PARTS)
    preferred = [way for key in (bug.stage, bug.effect) if (way := _FIRST.get(key)) in ways]
    return tuple(dict.fromkeys([*filter(None, preferred), *ways]))
