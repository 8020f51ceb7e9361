"""Options that several commands share, and how their values are read."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, TypeVar

import typer

from specverify.errors import InvalidInputError

__all__ = ["AsJson", "Seed", "UnusedSeed", "comma_separated", "member", "positive_integers"]

MemberT = TypeVar("MemberT", bound=StrEnum)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else, to stdout.")]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Seed of every draw.")]
UnusedSeed = Annotated[
    int, typer.Option("--seed", min=0, help="Accepted everywhere; this command draws nothing.")
]


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


def _run(part: str) -> range:
    first, dash, last = part.strip().partition("-")
    if not dash:
        return range(int(first), int(first) + 1)
    if not first:
        return range(int(part), int(part) + 1)  # a negative number, refused by the caller
    if int(last) < int(first):
        raise ValueError(part)
    return range(int(first), int(last) + 1)
