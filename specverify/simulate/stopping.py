"""When a run ends: after so many tokens, after so many rounds, or at an EOS."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from specverify._arrays import IntArray
from specverify.errors import InvalidInputError
from specverify.theory.validation import checked_count

__all__ = ["AtEos", "AtRounds", "AtTokens", "StopRule"]


class StopRule(Protocol):
    """How much each run goes on for, and of what."""

    @property
    def unit(self) -> Literal["tokens", "rounds"]:
        """What is counted."""
        ...

    def wanted(self, generator: np.random.Generator, runs: int) -> IntArray:
        """The goal of each run, shape ``(runs,)``, at least 1."""
        ...


@dataclass(frozen=True)
class AtTokens:
    """Every run delivers the same number of tokens.

    Args:
        tokens: The number, at least 1.
    """

    tokens: int
    unit: Literal["tokens"] = "tokens"

    def __post_init__(self) -> None:
        checked_count("tokens", self.tokens)

    def wanted(self, generator: np.random.Generator, runs: int) -> IntArray:
        """The same for each run."""
        return np.full(runs, self.tokens)


@dataclass(frozen=True)
class AtRounds:
    """Every run has the same number of rounds: no last round is cut, and no ratio is biased.

    Args:
        rounds: The number, at least 1.
    """

    rounds: int
    unit: Literal["rounds"] = "rounds"

    def __post_init__(self) -> None:
        checked_count("rounds", self.rounds)

    def wanted(self, generator: np.random.Generator, runs: int) -> IntArray:
        """The same for each run."""
        return np.full(runs, self.rounds)


@dataclass(frozen=True)
class AtEos:
    """Every token ends the text with the same probability, up to a greatest length.

    Args:
        hazard: Probability that a token is the EOS, in (0, 1].
        max_tokens: Greatest number of tokens, at least 1.
    """

    hazard: float
    max_tokens: int
    unit: Literal["tokens"] = "tokens"

    def __post_init__(self) -> None:
        if not 0 < self.hazard <= 1:
            raise InvalidInputError("hazard", f"must lie in (0, 1], got {self.hazard}")
        checked_count("max_tokens", self.max_tokens)

    def wanted(self, generator: np.random.Generator, runs: int) -> IntArray:
        """Geometric lengths, cut at the greatest; tokens past the EOS are not delivered."""
        return np.minimum(generator.geometric(self.hazard, size=runs), self.max_tokens)
