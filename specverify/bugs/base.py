"""What the zoo says about each of its animals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeAlias

from specverify._arrays import FloatArray

__all__ = ["BlockLaw", "Bug", "Effect", "Kind", "Role", "RowLaw", "Stage"]

BlockLaw: TypeAlias = Mapping[tuple[int, ...], float]
"""Probability of every emitted tuple."""

RowLaw: TypeAlias = Callable[[FloatArray, FloatArray], FloatArray]
"""Law of the token emitted at a draft position that is reached, from the target's and the draft's
rows there, shape ``(..., vocab)``. Mass outside the vocabulary is missing from the sum."""


class Kind(StrEnum):
    """In which form it is audited."""

    VERIFY = "verify"
    BATCHED = "batched"
    DECODE = "decode"
    COUNTER = "counter"


class Role(StrEnum):
    """What an audit ought to say about it."""

    BUG = "bug"
    CONTROL = "control"
    LOSSY = "lossy"


class Effect(StrEnum):
    """What it spoils: the emitted law, only the speed, the numbers reported, or the interface."""

    LAW = "law"
    EFFICIENCY = "efficiency"
    COUNTS = "counts"
    CONTRACT = "contract"
    NONE = "none"


class Stage(StrEnum):
    """Where in the algorithm it sits."""

    DRAFT = "draft"
    ACCEPT = "accept"
    RESIDUAL = "residual"
    BONUS = "bonus"
    PARAMETERS = "parameters"
    RANDOMNESS = "randomness"
    ROWS = "rows"
    CACHE = "cache"
    BATCH = "batch"
    STOPPING = "stopping"
    COUNTERS = "counters"
    NUMERICS = "numerics"


@dataclass(frozen=True, kw_only=True)
class Bug:
    """An implementation with one known defect, or a control that only looks like one.

    Attributes:
        name: Identifier, lower case with underscores.
        kind: Form of ``callable``.
        stage: Where the defect sits.
        mathematics: One line: what it does in place of what.
        expected_check: What is expected to see it, e.g. ``"first marginal"``.
        callable: The implementation: a block verifier that also takes a leading batch axis
            (``verify``), a batched verifier (``batched``), a decoder (``decode``), or a function of
            a run's records (``counter``). numpy arrays and a ``numpy.random.Generator``.
        reference: Where it was reported: public tracker or paper.
        effect: What it spoils.
        role: Bug, control, or lossy by declaration.
        blind: Where it cannot be seen; empty if nowhere.
        scene: Name of the fixture of :mod:`specverify.bugs.fixtures` on which it shows.
        row_law: Closed-form law of one draft position, where there is one.
    """

    name: str
    kind: Kind
    stage: Stage
    mathematics: str
    expected_check: str
    callable: Callable[..., Any]
    reference: str = "classic"
    effect: Effect = Effect.LAW
    role: Role = Role.BUG
    blind: str = ""
    scene: str = "M3"
    row_law: RowLaw | None = None

    def __str__(self) -> str:
        return self.name
