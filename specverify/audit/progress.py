"""Where an audit stands, for whoever watches it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

__all__ = ["Callback", "Progress"]


@dataclass(frozen=True, kw_only=True)
class Progress:
    """Where an audit stands; handed to the ``progress`` callback after every shard.

    Attributes:
        stage: ``load``, ``resume``, ``trace``, ``sample`` or ``done``.
        look: Number of the look, from 0.
        done: Completions drawn in it; those on record where an audit is taken up again.
        total: Completions planned in it.
        scenario: Scenario of the shard.
    """

    stage: str
    look: int = 0
    done: int = 0
    total: int = 0
    scenario: str = ""


Callback: TypeAlias = Callable[[Progress], None]
