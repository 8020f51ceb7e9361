"""``specverify logs``: what an engine printed about speculation, checked and put in one table."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from specverify.cli.options import AsJson, UnusedSeed
from specverify.cli.shell import note, say, say_json, say_records
from specverify.errors import InvalidInputError, UnknownTargetError

if TYPE_CHECKING:
    from specverify.adapters.logs.record import SpeculationRecord

__all__ = ["logs", "read_text"]

_SHOWN = 20


def logs(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="A log, JSON, JSON lines or /metrics; - is stdin.")
    ],
    as_json: AsJson = False,
    seed: UnusedSeed = 0,
) -> None:
    """The three "acceptance rates" of vLLM, SGLang, TensorRT-LLM, llama.cpp and LM Studio.

    Exit code 1: numbers of one record contradict each other.
    """
    from specverify.adapters.logs.identities import broken
    from specverify.adapters.logs.pooling import pooled
    from specverify.adapters.logs.reading import read_records

    text = read_text(file)
    try:
        records = read_records(text)
    except InvalidInputError as error:
        raise InvalidInputError("FILE", f"{file} {error.problem}") from None
    pools = pooled(records)
    if as_json:
        say_json({"records": [_full(r) for r in records], "pooled": [_full(r) for r in pools]})
    else:
        _show([*pools, *records])
    if any(broken(record) for record in records):
        raise typer.Exit(1)


def read_text(file: str) -> str:
    """The text of a file, or of standard input.

    Raises:
        UnknownTargetError: If it cannot be read.
    """
    if file == "-":
        return sys.stdin.read()
    try:
        return Path(file).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise UnknownTargetError("FILE", f"cannot read {file}: {error.strerror}") from None


def _full(record: SpeculationRecord) -> dict[str, Any]:
    import msgspec

    from specverify.adapters.logs.identities import check_identities
    from specverify.adapters.logs.record import rates

    found: dict[str, Any] = msgspec.to_builtins(
        {"record": record, "rates": rates(record), "identities": check_identities(record)}
    )
    return found


def _show(records: list[SpeculationRecord]) -> None:
    from specverify.adapters.logs.identities import broken

    say_records([_row(record) for record in records[:_SHOWN]])
    if len(records) > _SHOWN:
        note(f"{len(records) - _SHOWN} more records: use --json")
    say("")
    say("alpha: accepted over tested tokens, those whose forerunners were all accepted")
    say("by position: share of steps that accepted the position (marginal, not conditional)")
    say("constant alpha: as many tokens a step, were it the same for every token")
    for source, text in dict.fromkeys((r.source, _open(r)) for r in records):
        say(f"{source}: {text}")
    for record in records:
        for identity in broken(record):
            say(f"BROKEN {record.source}, {record.label}: {identity.name}: {identity.text}")


def _open(record: SpeculationRecord) -> str:
    """What the format leaves open, and what was found by a detour."""
    open_questions = f"cannot tell {', '.join(record.cannot_tell)}" if record.cannot_tell else ""
    detours = [f"{name} is {how}" for name, how in record.derived.items()]
    return "; ".join(part for part in (open_questions, *detours) if part) or "tells everything"


def _row(record: SpeculationRecord) -> dict[str, str]:
    from specverify.adapters.logs.record import rates

    found = rates(record)
    return {
        "source": record.source,
        "where": record.label,
        "steps": _text(record.steps),
        "gamma": _text(record.gamma),
        "drafted": _text(record.drafted),
        "accepted": _text(record.accepted),
        "alpha": _text(found.conditional),
        "accepted/drafted": _text(found.accepted_over_drafted),
        "by position": " ".join(map(_text, found.marginal_by_position or (None,))),
        "constant alpha": _text(found.alpha_if_constant),
        "tokens/step": _text(found.tokens_per_step),
    }


def _text(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.3f}" if isinstance(value, float) and value != int(value) else f"{value:g}"
