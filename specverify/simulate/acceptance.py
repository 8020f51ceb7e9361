"""How acceptance behaves from round to round: processes that a simulation draws from.

A process gives each run, round by round, the acceptance probabilities of the tokens that may be
drafted (each given that all before were accepted). Everything is vectorised over runs. Processes
that can count the outcomes of many rounds at once also say so (``BulkAcceptance``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from specverify._arrays import FloatArray, IntArray
from specverify.errors import InvalidInputError
from specverify.theory.emitted_length import emitted_length_pmf
from specverify.theory.validation import checked_cost, checked_probability

__all__ = [
    "AcceptanceProcess",
    "BetaAcceptance",
    "BulkAcceptance",
    "ConstantAcceptance",
    "PositionAcceptance",
    "State",
    "TraceAcceptance",
]

State: TypeAlias = NDArray[Any]


@runtime_checkable
class AcceptanceProcess(Protocol):
    """Acceptance probabilities of successive rounds, for many runs side by side."""

    def start(self, generator: np.random.Generator, runs: int) -> State:
        """State of each run before its first round, shape ``(runs, ...)``."""
        ...

    def next_round(
        self, generator: np.random.Generator, state: State, width: int
    ) -> tuple[FloatArray, State]:
        """Probabilities of the next round's tokens, shape ``(runs, width)``, and the new state."""
        ...


@runtime_checkable
class BulkAcceptance(AcceptanceProcess, Protocol):
    """A process that counts the outcomes of many rounds of a fixed draft length at once."""

    def accepted_counts(
        self,
        generator: np.random.Generator,
        state: State,
        rounds: IntArray,
        gamma: int,
    ) -> tuple[IntArray, State]:
        """How many of each run's ``rounds`` accept 0..gamma tokens, and the new state.

        Counts have shape ``(runs, gamma + 1)``.
        """
        ...

    def accepted_each(
        self, generator: np.random.Generator, state: State, rounds: int, gamma: int
    ) -> tuple[IntArray, State]:
        """How many tokens each of the next rounds accepts, ``(runs, rounds)``, and the new state.

        For the last rounds of a run, whose number depends on what they emit.
        """
        ...


class _IndependentRounds:
    """Rounds that forget each other: no state, and one multinomial counts any number of them."""

    def position_alphas(self, width: int) -> FloatArray:
        """Acceptance at each position given that all before were accepted, shape ``(width,)``."""
        raise NotImplementedError

    def start(self, generator: np.random.Generator, runs: int) -> State:
        return np.zeros((runs, 0))

    def next_round(
        self, generator: np.random.Generator, state: State, width: int
    ) -> tuple[FloatArray, State]:
        return np.broadcast_to(self.position_alphas(width), (len(state), width)), state

    def accepted_counts(
        self,
        generator: np.random.Generator,
        state: State,
        rounds: IntArray,
        gamma: int,
    ) -> tuple[IntArray, State]:
        return generator.multinomial(rounds, emitted_length_pmf(self.position_alphas(gamma))), state

    def accepted_each(
        self, generator: np.random.Generator, state: State, rounds: int, gamma: int
    ) -> tuple[IntArray, State]:
        uniform = generator.random((len(state), rounds))
        accepted = np.zeros(uniform.shape, dtype=np.int64)
        # Few outcomes, many rounds: a pass for each is faster than a search for each round.
        for edge in np.cumsum(emitted_length_pmf(self.position_alphas(gamma))[:-1]):
            accepted += uniform >= edge
        return accepted, state


@dataclass(frozen=True)
class ConstantAcceptance(_IndependentRounds):
    """Every draft token is accepted with the same probability.

    Args:
        alpha: The probability, in [0, 1].
    """

    alpha: float

    def __post_init__(self) -> None:
        checked_probability("alpha", self.alpha)

    def position_alphas(self, width: int) -> FloatArray:
        """The same probability at each of ``width`` positions."""
        return np.full(width, self.alpha)


@dataclass(frozen=True)
class PositionAcceptance(_IndependentRounds):
    """Acceptance that depends on the position in the block, e.g. falls along it.

    Args:
        alphas: Probabilities in [0, 1], given that all before were accepted, at least one.
    """

    alphas: tuple[float, ...]

    def __post_init__(self) -> None:
        rates = checked_probability("alphas", self.alphas)
        if rates.ndim != 1 or rates.size == 0:
            raise InvalidInputError("alphas", f"must be one non-empty row, got shape {rates.shape}")

    def position_alphas(self, width: int) -> FloatArray:
        """The first ``width`` probabilities."""
        if width > len(self.alphas):
            raise InvalidInputError(
                "alphas", f"has {len(self.alphas)} positions, but {width} may be drafted"
            )
        return np.asarray(self.alphas[:width], dtype=np.float64)


@dataclass(frozen=True)
class BetaAcceptance(_IndependentRounds):
    """Contexts that differ: each round, or each token, has its own alpha from a Beta law.

    Args:
        mean: Mean alpha, strictly between 0 and 1.
        concentration: ``a + b`` of the Beta law, above 0; the larger, the more alike the contexts.
        per_token: Draw an alpha for each token rather than one for the whole round. Its lengths
            are then those of a constant alpha, but a drafter that knows its alphas can stop in
            time.
    """

    mean: float
    concentration: float
    per_token: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.mean < 1:
            raise InvalidInputError("mean", f"must lie strictly in (0, 1), got {self.mean}")
        checked_cost("concentration", self.concentration, positive=True)

    def position_alphas(self, width: int) -> FloatArray:
        """Marginal acceptance: having come far is evidence of an easy context."""
        if self.per_token:
            return np.full(width, self.mean)
        before = np.arange(width)
        accepted: FloatArray = self.mean * self.concentration + before
        return accepted / (self.concentration + before)

    def next_round(
        self, generator: np.random.Generator, state: State, width: int
    ) -> tuple[FloatArray, State]:
        """Fresh alphas for each run."""
        a = self.mean * self.concentration
        shape = (len(state), width if self.per_token else 1)
        alphas = generator.beta(a, self.concentration - a, size=shape)
        return np.broadcast_to(alphas, (len(state), width)), state


class TraceAcceptance:
    """Rounds replayed in their recorded order, each run from a random place, around and around.

    Args:
        rounds: One row a recorded round, shape ``(rounds, gamma)``: either acceptance
            probabilities, or outcomes, 1 for each accepted token and 0 from the rejected one on.

    Raises:
        InvalidInputError: If an entry is outside [0, 1] or there is no round.
    """

    def __init__(self, rounds: ArrayLike | Sequence[Sequence[float]]) -> None:
        self._rounds = checked_probability("rounds", rounds)
        if self._rounds.ndim != 2 or 0 in self._rounds.shape:
            raise InvalidInputError(
                "rounds", f"must have shape (rounds, gamma), got {self._rounds.shape}"
            )

    @classmethod
    def of_counts(cls, accepted: Sequence[int], gamma: int) -> TraceAcceptance:
        """A record of how many tokens each round accepted, e.g. ``n_accepted`` of a decode's trace.

        Args:
            accepted: Accepted tokens of each round, 0 to ``gamma``.
            gamma: Drafted tokens of a round.

        Raises:
            InvalidInputError: If a round accepted more than were drafted, or fewer than none.
        """
        counts = np.asarray(accepted)
        if counts.size and not 0 <= counts.min() <= counts.max() <= gamma:
            raise InvalidInputError("accepted", f"must lie in 0..{gamma}, got {list(accepted)}")
        return cls((np.arange(gamma) < counts.reshape(-1, 1)).astype(np.float64))

    def start(self, generator: np.random.Generator, runs: int) -> State:
        """A random place in the record for each run."""
        return generator.integers(len(self._rounds), size=runs)

    def next_round(
        self, generator: np.random.Generator, state: State, width: int
    ) -> tuple[FloatArray, State]:
        """The recorded round at each run's place."""
        recorded = self._rounds.shape[1]
        if width > recorded:
            raise InvalidInputError("rounds", f"records {recorded} tokens, {width} may be drafted")
        return self._rounds[state, :width], (state + 1) % len(self._rounds)
