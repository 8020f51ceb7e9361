"""Random choices that can be sampled or enumerated: the zoo's code is written once for both."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import numpy as np

from specverify._arrays import FloatArray

__all__ = ["Draws", "SampledDraws", "Uniform", "enumerate_draws", "invert"]

OutcomeT = TypeVar("OutcomeT", bound=Hashable)


class Uniform(Protocol):
    """A number drawn uniformly from [0, 1) that can only be compared."""

    def __lt__(self, threshold: float, /) -> bool: ...


class Draws(Protocol):
    """Source of random choices."""

    def uniform(self) -> Any:
        """A fresh :class:`Uniform`."""

    def token(self, law: FloatArray) -> int:
        """A fresh draw from ``law``, shape ``(vocab,)``."""

    def race(self, law: FloatArray) -> int:
        """The winner of a fresh exponential race with rates ``law``, shape ``(vocab,)``."""


class SampledDraws:
    """Choices from a generator: one ``random()`` or one ``choice()`` for each."""

    def __init__(self, generator: np.random.Generator) -> None:
        self._generator = generator

    def uniform(self) -> Any:
        """A float in [0, 1)."""
        return self._generator.random()

    def token(self, law: FloatArray) -> int:
        """An index of ``law``."""
        return int(self._generator.choice(law.shape[-1], p=law))

    def race(self, law: FloatArray) -> int:
        """The index that maximises ``law / exponential``."""
        return int((law / self._generator.exponential(size=law.shape)).argmax())


def invert(uniform: Any, law: FloatArray) -> int:
    """The token whose interval of the distribution function holds ``uniform``."""
    edges = np.cumsum(law)
    last = int(np.flatnonzero(law)[-1])
    return next((token for token in range(last) if uniform < float(edges[token])), last)


@dataclass(slots=True)
class _Tape:
    """One path: the branches taken so far, and those still to be taken."""

    prefix: tuple[int, ...]
    taken: list[int] = field(default_factory=list)
    mass: float = 1.0
    siblings: list[tuple[int, ...]] = field(default_factory=list)

    def branch(self, probabilities: FloatArray) -> int:
        options = np.flatnonzero(probabilities)
        depth = len(self.taken)
        if depth < len(self.prefix):
            choice = self.prefix[depth]
        else:
            choice = int(options[0])
            self.siblings.extend((*self.taken, int(other)) for other in options[1:])
        self.taken.append(choice)
        self.mass *= float(probabilities[choice])
        return choice


class _TapeUniform:
    """A uniform known to lie in an interval, which every comparison cuts."""

    __slots__ = ("_high", "_low", "_tape")

    def __init__(self, tape: _Tape) -> None:
        self._tape, self._low, self._high = tape, 0.0, 1.0

    def __lt__(self, threshold: float) -> bool:
        if threshold >= self._high or threshold <= self._low:
            return threshold >= self._high
        below = (threshold - self._low) / (self._high - self._low)
        if self._tape.branch(np.array([1 - below, below])):
            self._high = threshold
            return True
        self._low = threshold
        return False


class _TapeDraws:
    def __init__(self, tape: _Tape) -> None:
        self._tape = tape

    def uniform(self) -> Any:
        return _TapeUniform(self._tape)

    def token(self, law: FloatArray) -> int:
        return self._tape.branch(law)

    # The winner of a race with rates that sum to one has the rates for its law.
    race = token


def enumerate_draws(run: Callable[[Draws], OutcomeT]) -> dict[OutcomeT, float]:
    """Exact law of ``run(draws)``: it is run once for every path of its choices.

    Args:
        run: Function of the draws alone; uniforms may be compared any number of times.

    Returns:
        Probability of every outcome, in float64; sums to one up to rounding.
    """
    masses: dict[OutcomeT, list[float]] = {}
    frontier: list[tuple[int, ...]] = [()]
    while frontier:
        tape = _Tape(frontier.pop())
        outcome = run(_TapeDraws(tape))
        masses.setdefault(outcome, []).append(tape.mass)
        frontier.extend(tape.siblings)
    return {outcome: math.fsum(parts) for outcome, parts in masses.items()}
