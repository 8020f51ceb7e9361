"""``specverify bugs``: the zoo of known bugs, and the controls that only look like bugs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from specverify.cli.options import AsJson, UnusedSeed
from specverify.cli.shell import say_json, say_records
from specverify.errors import InvalidInputError

if TYPE_CHECKING:
    from specverify.bugs import Bug

__all__ = ["bugs"]

_SHORT = ("name", "role", "stage", "effect", "mathematics")


def bugs(
    name: Annotated[
        str | None, typer.Argument(help="One of them, in full; all in a line each if not given.")
    ] = None,
    as_json: AsJson = False,
    seed: UnusedSeed = 0,
) -> None:
    """List the known bugs that audits recognise, their controls, and where they were reported."""
    from specverify.bugs import CONTROLS, LOSSY, ZOO

    zoo = {**ZOO, **CONTROLS, **LOSSY}
    if name is not None and name not in zoo:
        raise InvalidInputError("name", f"{name!r} is none of {', '.join(zoo)}")
    records = [_record(zoo[name])] if name else [_record(bug) for bug in zoo.values()]
    if as_json:
        say_json(records)
    elif name:
        say_records([{"field": key, "value": value} for key, value in records[0].items()])
    else:
        say_records([{key: record[key] for key in _SHORT} for record in records])


def _record(bug: Bug) -> dict[str, Any]:
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
    }
