"""What rounds cost: timing models of draft steps, verification passes and plain steps.

Times are totals of independent steps, so that a million steps may be one draw. Any unit will do if
it is the same everywhere. A draft that costs nothing (n-gram lookup) has ``draft_time = 0``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike

from specverify._arrays import FloatArray, IntArray
from specverify.errors import InvalidInputError
from specverify.theory.validation import checked_cost, checked_count

__all__ = ["ConstantTiming", "JitterTiming", "MeasuredTiming", "RooflineTiming", "TimingModel"]

_DRAWS_AT_ONCE = 4_000_000


class TimingModel(Protocol):
    """Total times of many steps, for many runs side by side."""

    def draft_times(self, generator: np.random.Generator, steps: IntArray) -> FloatArray:
        """Time of so many draft steps of each run, shape ``(runs,)``."""
        ...

    def verify_times(
        self, generator: np.random.Generator, passes: IntArray, gamma: IntArray
    ) -> FloatArray:
        """Time of so many target passes of each run, each over ``gamma + 1`` tokens."""
        ...

    def plain_times(self, generator: np.random.Generator, tokens: IntArray) -> FloatArray:
        """Time of so many plain steps of the target of each run."""
        ...


@dataclass(frozen=True)
class ConstantTiming:
    """Two times that never vary.

    Args:
        draft_time: Time of a draft step, finite and at least 0.
        target_time: Time of a target pass over one token, finite and above 0.
        verify_slope: What each further token of a block adds to a pass, over ``target_time``; at
            least 0. Reading the weights hides it on an accelerator, hardly on a processor.
    """

    draft_time: float
    target_time: float
    verify_slope: float = field(default=0.0, kw_only=True)

    def __post_init__(self) -> None:
        checked_cost("draft_time", self.draft_time)
        checked_cost("target_time", self.target_time, positive=True)
        checked_cost("verify_slope", self.verify_slope)

    def draft_times(self, generator: np.random.Generator, steps: IntArray) -> FloatArray:
        """Proportional to the steps."""
        return steps * self.draft_time

    def verify_times(
        self, generator: np.random.Generator, passes: IntArray, gamma: IntArray
    ) -> FloatArray:
        """Proportional to the passes, and linear in the tokens of one."""
        return passes * (self.target_time * (1 + self.verify_slope * gamma))

    def plain_times(self, generator: np.random.Generator, tokens: IntArray) -> FloatArray:
        """Proportional to the tokens."""
        return tokens * self.target_time


@dataclass(frozen=True)
class JitterTiming:
    """Two times that vary independently from step to step.

    Args:
        draft_time: Mean time of a draft step, finite and at least 0.
        target_time: Mean time of a target pass, finite and above 0.
        variation: Standard deviation over mean of a single step, above 0.
        law: ``gamma``, whose sums are one draw, or ``lognormal``, with the heavier tail.
        verify_slope: What each further token of a block adds to a pass, over ``target_time``; at
            least 0.
    """

    draft_time: float
    target_time: float
    variation: float
    law: Literal["gamma", "lognormal"] = "gamma"
    verify_slope: float = field(default=0.0, kw_only=True)

    def __post_init__(self) -> None:
        checked_cost("verify_slope", self.verify_slope)
        checked_cost("draft_time", self.draft_time)
        checked_cost("target_time", self.target_time, positive=True)
        checked_cost("variation", self.variation, positive=True)
        if self.law not in ("gamma", "lognormal"):
            raise InvalidInputError("law", f"must be 'gamma' or 'lognormal', got {self.law!r}")

    def draft_times(self, generator: np.random.Generator, steps: IntArray) -> FloatArray:
        """Sums of as many independent times."""
        return self.draft_time * self._unit_sums(generator, steps)

    def verify_times(
        self, generator: np.random.Generator, passes: IntArray, gamma: IntArray
    ) -> FloatArray:
        """Sums of as many independent times, each linear in the tokens of a block."""
        slope = 1 + self.verify_slope * gamma
        return self.target_time * slope * self._unit_sums(generator, passes)

    def plain_times(self, generator: np.random.Generator, tokens: IntArray) -> FloatArray:
        """Sums of as many independent times."""
        return self.target_time * self._unit_sums(generator, tokens)

    def _unit_sums(self, generator: np.random.Generator, counts: IntArray) -> FloatArray:
        """Sums of ``counts`` independent times of mean 1."""
        if self.law == "gamma":
            shape = self.variation**-2
            return generator.standard_gamma(counts * shape) / shape
        variance = np.log1p(self.variation**2)
        spread = float(np.sqrt(variance))
        return _sums(lambda n: generator.lognormal(-variance / 2, spread, size=n), counts)


class MeasuredTiming:
    """Times resampled from measured ones, as they came.

    Args:
        draft_times: Measured times of draft steps, at least one, finite and at least 0.
        target_times: Measured times of target passes, at least one, finite and above 0.
        verify_times: Measured times of passes over a block, likewise; ``target_times`` by default.

    Raises:
        InvalidInputError: If a time is out of range or there is none.
    """

    def __init__(
        self,
        draft_times: ArrayLike,
        target_times: ArrayLike,
        *,
        verify_times: ArrayLike | None = None,
    ) -> None:
        verify = target_times if verify_times is None else verify_times
        self._draft = checked_cost("draft_times", np.ravel(draft_times))
        self._target = checked_cost("target_times", np.ravel(target_times), positive=True)
        self._verify = checked_cost("verify_times", np.ravel(verify), positive=True)
        for argument, times in {
            "draft_times": self._draft,
            "target_times": self._target,
            "verify_times": self._verify,
        }.items():
            if times.size == 0:
                raise InvalidInputError(argument, "needs at least one measured time, got none")

    def draft_times(self, generator: np.random.Generator, steps: IntArray) -> FloatArray:
        """Sums of as many resampled times."""
        return _sums(lambda n: generator.choice(self._draft, size=n), steps)

    def verify_times(
        self, generator: np.random.Generator, passes: IntArray, gamma: IntArray
    ) -> FloatArray:
        """Sums of as many resampled times."""
        return _sums(lambda n: generator.choice(self._verify, size=n), passes)

    def plain_times(self, generator: np.random.Generator, tokens: IntArray) -> FloatArray:
        """Sums of as many resampled times."""
        return _sums(lambda n: generator.choice(self._target, size=n), tokens)


@dataclass(frozen=True)
class RooflineTiming:
    """Reading the weights bounds a small batch, arithmetic a large one.

    A pass over ``n`` tokens of each of ``batch`` sequences takes
    ``max(weights_time, batch * n * token_time)``: verifying is free until arithmetic binds, and a
    batch large enough makes speculation a loss.

    Args:
        draft_time: Time of a draft step over the batch, finite and at least 0.
        weights_time: Time to read the target's weights once, finite and above 0.
        token_time: Arithmetic time per token, finite and at least 0.
        batch: Sequences decoded together, at least 1.
    """

    draft_time: float
    weights_time: float
    token_time: float
    batch: int = 1

    def __post_init__(self) -> None:
        checked_cost("draft_time", self.draft_time)
        checked_cost("weights_time", self.weights_time, positive=True)
        checked_cost("token_time", self.token_time)
        checked_count("batch", self.batch)

    def draft_times(self, generator: np.random.Generator, steps: IntArray) -> FloatArray:
        """Proportional to the steps."""
        return steps * self.draft_time

    def verify_times(
        self, generator: np.random.Generator, passes: IntArray, gamma: IntArray
    ) -> FloatArray:
        """Passes times the roof of ``gamma + 1`` tokens a sequence."""
        return passes * self._roof(gamma + 1)

    def plain_times(self, generator: np.random.Generator, tokens: IntArray) -> FloatArray:
        """Tokens times the roof of one token a sequence."""
        return tokens * self._roof(np.ones_like(tokens))

    def _roof(self, tokens: IntArray) -> FloatArray:
        roof: FloatArray = np.maximum(self.weights_time, self.batch * tokens * self.token_time)
        return roof


def _sums(draw: Callable[[int], FloatArray], counts: IntArray) -> FloatArray:
    """For each run the sum of ``counts`` independent draws, in portions that fit in memory."""
    totals = np.zeros(len(counts))
    left = counts.copy()
    portion = max(1, _DRAWS_AT_ONCE // max(len(counts), 1))
    while left.any():
        taken = np.minimum(left, portion)
        owners = np.repeat(np.arange(len(counts)), taken)
        totals += np.bincount(owners, weights=draw(len(owners)), minlength=len(counts))
        left -= taken
    return totals
