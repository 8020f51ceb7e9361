"""``specverify compare OLD NEW``: did this build get worse?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from specverify.cli.options import AsJson, UnusedSeed
from specverify.cli.shell import say, say_json, say_records

if TYPE_CHECKING:
    from specverify.audit.comparison import Change, Comparison

__all__ = ["compare"]

_RUN = "A result.json, or the folder that holds it."


def compare(
    old: Annotated[Path, typer.Argument(metavar="OLD", help=_RUN)],
    new: Annotated[Path, typer.Argument(metavar="NEW", help=_RUN)],
    level: Annotated[
        float,
        typer.Option(help="Probability that equal implementations show a change of tokens/pass."),
    ] = 1e-6,
    as_json: AsJson = False,
    seed: UnusedSeed = 0,
) -> None:
    """Compare two audits; exit 1 if a check or the tokens/pass got worse."""
    import msgspec

    from specverify.audit.comparison import compare as compare_results
    from specverify.report.jsonout import read_result

    found = compare_results(read_result(old), read_result(new), level=level)
    if as_json:
        say_json(msgspec.to_builtins(found) | {"worse": len(found.worse)})
    else:
        _show(found)
    raise typer.Exit(1 if found.worse else 0)


def _show(found: Comparison) -> None:
    if found.changes:
        say_records([_row(change) for change in found.changes])
        say("")
    counted = f"{found.compared} checks compared"
    if found.worse:
        say(f"{counted}: {len(found.worse)} changes for the worse, {found.worse[0].subject} first")
    else:
        say(f"{counted}: nothing got worse")


def _row(change: Change) -> dict[str, Any]:
    return {
        "change": str(change.direction),
        "what": change.subject,
        "old": change.old,
        "new": change.new,
        "p": change.p_value,
    }
