"""``specverify bugs``: the zoo of known bugs, and the controls that only look like bugs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any

import typer

from specverify.cli.options import AsJson, UnusedSeed
from specverify.cli.shell import say_json, say_records
from specverify.errors import InvalidInputError

if TYPE_CHECKING:
    from specverify.bugs import Bug

__all__ = ["bugs"]

_SHORT = ("name", "role", "kind", "stage", "tv", "samples", "seen_by", "mathematics")


def bugs(
    name: Annotated[
        str | None, typer.Argument(help="One of them, in full; all in a line each if not given.")
    ] = None,
    as_json: AsJson = False,
    seed: UnusedSeed = 0,
) -> None:
    """List the known bugs and their controls: exact distance, samples to detect, what sees them.

    Samples are the blocks, batches, completions or reports that an oracle needs, who bets on the
    very bug, at a false-alarm level of 1e-6.
    """
    from specverify.bugs.registry import members

    zoo = members()
    if name is not None and name not in zoo:
        raise InvalidInputError("name", f"{name!r} is none of {', '.join(zoo)}")
    records = [_record(zoo[name])] if name else [_record(bug) for bug in zoo.values()]
    if as_json:
        say_json(records)
    elif name:
        say_records([{"field": key, "value": value} for key, value in records[0].items()])
    else:
        say_records([_short(record) for record in records])


def _short(record: dict[str, Any]) -> dict[str, Any]:
    samples = record["samples"]
    return {key: record[key] for key in _SHORT} | {
        "samples": None if samples is None else math.ceil(samples)
    }


def _record(bug: Bug) -> dict[str, Any]:
    from specverify.bugs.facts import LEVEL, facts

    known = facts(bug)
    return {
        "name": bug.name,
        "role": str(bug.role),
        "kind": str(bug.kind),
        "stage": str(bug.stage),
        "effect": str(bug.effect),
        "mathematics": bug.mathematics,
        "expected_check": bug.expected_check,
        "blind": bug.blind,
        "reference": bug.reference,
        "scene": bug.scene,
        "tv": known.tv,
        "samples": known.samples,
        "level": LEVEL,
        "observed": known.observed,
        "seen_by": known.seen_by,
    }
