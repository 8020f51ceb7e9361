"""From sightings to a row: what the suite said of a member, and whether it ought to."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from specverify.bugs import Bug, Role
from specverify.bugs.facts import facts
from specverify.results import Verdict
from specverify.selftest.audits import Audit
from specverify.selftest.declared import GAMMAS, distance_to_declare
from specverify.selftest.effort import efforts, large_vocab_median
from specverify.selftest.outcome import Row, Sighting
from specverify.selftest.settings import Settings
from specverify.selftest.ways import ways_of

__all__ = ["judge_member"]

_DIAGNOSED = "audit"
"""The way that ends in a diagnosis; the others say which identity or which law is broken."""

_Look: TypeAlias = Callable[[Bug, Settings, Sequence[int]], dict[str, Any]]


def judge_member(bug: Bug, settings: Settings, seed: int) -> Row:
    """Look at a member until it is caught, or in every way where it ought to pass.

    Args:
        bug: The member.
        settings: How much to spend.
        seed: Root of every draw; the member's own follow from it and from its name.
    """
    # The name's checksum: which other members are tested changes nothing.
    root = np.random.SeedSequence(seed, spawn_key=(zlib.crc32(bug.name.encode()),))
    sampling, betting = root.spawn(2)
    seeds = [int(word) for word in sampling.generate_state(settings.replications)]
    look = {Role.BUG: _hunted, Role.CONTROL: _cleared, Role.LOSSY: _declared}[bug.role]
    return Row(
        name=bug.name,
        role=str(bug.role),
        kind=str(bug.kind),
        stage=str(bug.stage),
        effect=str(bug.effect),
        tv=facts(bug).tv,
        **_survived(look, bug, settings, seeds),
        **_efforts(bug, settings, np.random.default_rng(betting)),
    )


def _survived(look: _Look, bug: Bug, settings: Settings, seeds: Sequence[int]) -> dict[str, Any]:
    """A member on which the suite itself breaks must not cost the others' rows."""
    try:
        return look(bug, settings, seeds)
    except Exception as error:
        note = f"the suite failed: {type(error).__name__}: {error}"
        return {"verdict": str(Verdict.ERROR), "right": False, "way": "", "note": note}


def _hunted(bug: Bug, settings: Settings, seeds: Sequence[int]) -> dict[str, Any]:
    """A bug: right once it is caught."""
    calls, seen = 0, []
    for way in ways_of(bug):
        seen.append(way(bug, settings, seeds[0]))
        calls += seen[-1].calls
        if seen[-1].caught:
            return _told(seen[-1], bug, verdict=Verdict.FAIL, right=True) | {"calls": calls}
    missed = "; ".join(f"{s.way}: {s.verdict}{f' ({s.note})' if s.note else ''}" for s in seen)
    return _told(seen[-1], bug, verdict=seen[-1].verdict, right=False) | {
        "calls": calls,
        "note": f"not caught: {missed}",
    }


def _cleared(bug: Bug, settings: Settings, seeds: Sequence[int]) -> dict[str, Any]:
    """A control: right if no way of looking calls its law wrong, under any seed."""
    seen = [way(bug, settings, seed) for seed in seeds for way in ways_of(bug)]
    calls = sum(sighting.calls for sighting in seen)
    wrong = [sighting for sighting in seen if sighting.verdict is not Verdict.PASS]
    if not wrong:
        ways = ", ".join(dict.fromkeys(sighting.way for sighting in seen))
        return {"verdict": "pass", "right": True, "way": ways, "calls": calls}
    note = f"{wrong[0].way}: {wrong[0].verdict} {wrong[0].note}".strip()
    told = _told(wrong[0], bug, verdict=wrong[0].verdict, right=False)
    return told | {"calls": calls, "note": note}


def _declared(bug: Bug, settings: Settings, seeds: Sequence[int]) -> dict[str, Any]:
    """A lossy member: right if it fails undeclared and passes with its own distance declared."""
    distance = distance_to_declare(bug, settings.scenarios)
    # A bound from a sample lies above the distance, by about what the audit leaves open.
    claim = f"lossy:{min(distance + settings.tv, 0.99):.3g}"
    silent = Audit(gammas=GAMMAS)(bug, settings, seeds[0])
    declared = Audit(gammas=GAMMAS, declare=claim)(bug, settings, seeds[0])
    right = silent.caught and declared.verdict is Verdict.PASS
    told = _told(silent, bug, verdict=declared.verdict, right=right)
    note = f"undeclared: {silent.verdict}; as {claim}: {declared.verdict}"
    way = f"{silent.way}, --declare {claim}"
    calls = silent.calls + declared.calls
    return told | {"way": way, "calls": calls, "note": "" if right else note}


def _told(sighting: Sighting, bug: Bug, *, verdict: Verdict, right: bool) -> dict[str, Any]:
    return {
        "verdict": str(verdict),
        "right": right,
        "way": sighting.way,
        "check": sighting.check,
        "position": sighting.position,
        "named": _name(sighting, bug),
        "note": "" if right else sighting.note,
    }


def _name(sighting: Sighting, bug: Bug) -> str:
    if bug.name == sighting.named:
        return bug.name
    if bug.name in sighting.siblings:
        return f"beside {sighting.named}"
    unnamed = sighting.caught and sighting.way == _DIAGNOSED
    return sighting.named or ("not named" if unnamed else "")


def _efforts(bug: Bug, settings: Settings, rng: np.random.Generator) -> dict[str, Any]:
    found = efforts(bug, rng, runs=settings.runs)
    known = {} if found is None else {k: _finite(v) for k, v in found._asdict().items()}
    if settings.large_vocab:
        known["large_vocab_median"] = large_vocab_median(
            bug, rng, vocab_size=settings.large_vocab, runs=settings.runs
        )
    return known


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None
