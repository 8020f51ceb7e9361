"""Options that several commands share, and how their values are read."""

from __future__ import annotations

import os
import re
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from specverify.errors import InvalidInputError

__all__ = [
    "AsJson",
    "BlockSizes",
    "Budget",
    "Checks",
    "Declare",
    "Expect",
    "FalseAlarm",
    "Form",
    "Framework",
    "Fresh",
    "HtmlFile",
    "JunitFile",
    "MarkdownFile",
    "MemoryLimit",
    "Mode",
    "OutFolder",
    "Scenarios",
    "Seed",
    "Strict",
    "Target",
    "TimeLimit",
    "TotalVariation",
    "UnusedSeed",
    "Workers",
    "Xfails",
    "comma_separated",
    "member",
    "positive_integers",
    "size_in_bytes",
    "usual_workers",
]

MemberT = TypeVar("MemberT", bound=StrEnum)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else, to stdout.")]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Seed of every draw.")]
UnusedSeed = Annotated[
    int, typer.Option("--seed", min=0, help="Accepted everywhere; this command draws nothing.")
]


Target = Annotated[
    str,
    typer.Argument(
        metavar="TARGET",
        help="reference, module:function, path/file.py:function, an engine listed by `specverify"
        " ls`, a completion server's http://host/v1, or completions on record in a .jsonl, .parquet"
        " or .npz file.",
    ),
]
Form = Annotated[
    str | None, typer.Option(help="verify, batched, decode or generate; found out if not given.")
]
Framework = Annotated[str | None, typer.Option(help="torch or numpy; found out if not given.")]
Reference = Annotated[
    str | None,
    typer.Option(
        metavar="MODEL",
        help="Model that a server's or a file's completions are compared with: tiny, shipped, a"
        " directory, a hub id; or the address of a server that does not speculate.",
    ),
]
EngineSettings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Setting of an engine, server or file, such as gamma=4; may be given again.",
    ),
]
Mode = Annotated[
    str,
    typer.Option(
        help="exact traces the law path by path, statistical samples it; auto traces what it can."
    ),
]
Strict = Annotated[
    bool, typer.Option("--strict", help="Hold edge cases and large vocabularies to --tv, too.")
]
Budget = Annotated[
    str | None, typer.Option(help="The most to spend: 60s, 2m (time) or 200k, 1M (calls).")
]
TotalVariation = Annotated[
    float, typer.Option(help="Largest total variation that a pass may leave open.")
]
FalseAlarm = Annotated[
    float, typer.Option(help="Probability that a correct implementation fails the law.")
]
Declare = Annotated[
    str, typer.Option(help="What TARGET claims: lossless or lossy:X (total variation X).")
]
Expect = Annotated[
    str,
    typer.Option(
        help="lossless; or the scheme of which a deviation fails: standard, match or block."
    ),
]
BlockSizes = Annotated[
    str | None, typer.Option(help="Block sizes to keep of the scenarios': 4, 1,2,4 or 1-4.")
]
Checks = Annotated[
    str | None, typer.Option(help="Checks to run, by name or pattern, separated by commas.")
]
Xfails = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Expected failures: 'pattern  # reason' lines."),
]
Scenarios = Annotated[str, typer.Option(help="default or thorough.")]
Workers = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Worker processes; results do not depend on it. Two, where there are two cores.",
        show_default=False,
    ),
]
TimeLimit = Annotated[
    float, typer.Option(help="Seconds that one call of the implementation may take.")
]
MemoryLimit = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE", help="Memory that a worker may take beyond what loading took: 2G, 500M."
    ),
]
OutFolder = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR", help="Write result.json and the ledger that an audit resumes from here."
    ),
]
Fresh = Annotated[
    bool, typer.Option("--fresh", help="Start anew: forget what an earlier run left to resume.")
]
MarkdownFile = Annotated[Path | None, typer.Option(metavar="FILE", help="Write a Markdown report.")]
HtmlFile = Annotated[Path | None, typer.Option(metavar="FILE", help="Write an HTML page.")]
JunitFile = Annotated[Path | None, typer.Option(metavar="FILE", help="Write a JUnit XML report.")]

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", re.IGNORECASE)
_UNITS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}


def comma_separated(text: str | None) -> tuple[str, ...]:
    """Read ``"a,b"``; nothing given is nothing."""
    return tuple(part.strip() for part in (text or "").split(",") if part.strip())


def member(option: str, kind: type[MemberT], text: str) -> MemberT:
    """Read one of an enumeration's values.

    Raises:
        InvalidInputError: If it is none of them.
    """
    try:
        return kind(text)
    except ValueError:
        raise InvalidInputError(option, f"must be one of {', '.join(kind)}; got {text!r}") from None


def positive_integers(option: str, text: str) -> tuple[int, ...]:
    """Read ``"4"``, ``"1,2,4"`` or ``"1-10"``.

    Args:
        option: Name of the option, for the message.
        text: What the user wrote.

    Raises:
        InvalidInputError: If it is none of these, or a number is below 1.
    """
    try:
        numbers = [number for part in text.split(",") for number in _run(part)]
    except ValueError:
        raise InvalidInputError(
            option, f"must be whole numbers such as 4, 1,2,4 or 1-10, got {text!r}"
        ) from None
    if not numbers or min(numbers) < 1:
        raise InvalidInputError(option, f"must be at least 1, got {text!r}")
    return tuple(dict.fromkeys(numbers))


def size_in_bytes(option: str, text: str) -> int:
    """Read ``"2G"``, ``"500M"`` or a number of bytes; a K is 1024.

    Raises:
        InvalidInputError: If it is none of these, or less than a byte.
    """
    match = _SIZE.fullmatch(text.strip())
    size = int(float(match[1]) * 1024 ** _UNITS[match[2].upper()]) if match else 0
    if size < 1:
        raise InvalidInputError(option, f"must be a size such as 2G or 500M, got {text!r}")
    return size


def usual_workers() -> int:
    """Worker processes where none are asked for: two, where this process may use two cores."""
    if hasattr(os, "sched_getaffinity"):
        return min(2, len(os.sched_getaffinity(0)))
    return min(2, os.cpu_count() or 1)


def axis_values(name: str, text: str, like: Any) -> list[Any]:
    """Read the values of one parameter: ``"0.5,0.8"``, ``"1-10"``, ``"true,false"``, words.

    Args:
        name: Name of the parameter, for the message.
        text: What the user wrote. Numbers may be joined by ``/`` into one value of several.
        like: A value of the right kind: its type says how to read.

    Raises:
        InvalidInputError: If a value cannot be read, or there is none.
    """
    parts = comma_separated(text)
    try:
        values = [value for part in parts for value in _read(part, like)]
    except ValueError:
        kind = {bool: "true or false", int: "whole numbers", float: "numbers"}[type(like)]
        raise InvalidInputError(name, f"must be {kind}, got {text!r}") from None
    if not values:
        raise InvalidInputError(name, "needs a value")
    return list(dict.fromkeys(values))


def _read(part: str, like: Any) -> list[Any]:
    if isinstance(like, bool):
        if part.lower() not in ("true", "false"):
            raise ValueError(part)
        return [part.lower() == "true"]
    if isinstance(like, int):
        return list(_run(part))
    if isinstance(like, float):
        numbers = tuple(float(number) for number in part.split("/"))
        return [numbers if len(numbers) > 1 else numbers[0]]
    return [part]


def _run(part: str) -> range:
    first, dash, last = part.strip().partition("-")
    if not dash:
        return range(int(first), int(first) + 1)
    if not first:
        return range(int(part), int(part) + 1)  # a negative number, refused by the caller
    if int(last) < int(first):
        raise ValueError(part)
    return range(int(first), int(last) + 1)
