"""How many tokens to draft: fixed, scheduled by past acceptance, or told by confidence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from specverify._arrays import FloatArray, IntArray
from specverify.theory.validation import checked_count, checked_probability

__all__ = ["FixedGamma", "GammaPolicy", "ReachGamma", "ScheduledGamma", "ThresholdGamma"]


class GammaPolicy(Protocol):
    """Chooses each round's draft length, for many runs side by side."""

    @property
    def max_gamma(self) -> int:
        """Longest draft that it may choose."""
        ...

    def start(self, runs: int) -> IntArray:
        """Memory before the first round, shape ``(runs,)``."""
        ...

    def choose(self, memory: IntArray, alphas: FloatArray) -> IntArray:
        """Draft lengths, shape ``(runs,)``; ``alphas``, shape ``(runs, max_gamma)``, are what a
        perfectly calibrated drafter knows about its tokens as it drafts them.
        """
        ...

    def update(self, memory: IntArray, accepted: IntArray) -> IntArray:
        """Memory after a round that accepted so many tokens."""
        ...


class _Forgetful:
    """A policy that does not look back."""

    def start(self, runs: int) -> IntArray:
        return np.zeros(runs, dtype=np.int64)

    def update(self, memory: IntArray, accepted: IntArray) -> IntArray:
        return memory


@dataclass(frozen=True)
class FixedGamma(_Forgetful):
    """The same draft length always.

    Args:
        gamma: Draft tokens per round, at least 1.
    """

    gamma: int

    def __post_init__(self) -> None:
        checked_count("gamma", self.gamma)

    @property
    def max_gamma(self) -> int:
        """The draft length."""
        return self.gamma

    def choose(self, memory: IntArray, alphas: FloatArray) -> IntArray:
        """The draft length, for every run."""
        return np.full(len(memory), self.gamma)


@dataclass(frozen=True)
class ScheduledGamma:
    """Draft more after a full accept and less after a rejection, as transformers' heuristic does.

    Args:
        initial: Draft length of the first round, in 1..max_gamma.
        up: Added after a full accept, at least 0.
        down: Taken off after a rejection, at least 0; never below 1 token.
        max_gamma: Longest draft, at least 1.
    """

    initial: int = 5
    up: int = 2
    down: int = 1
    max_gamma: int = 20

    def __post_init__(self) -> None:
        checked_count("initial", self.initial)
        checked_count("up", self.up, least=0)
        checked_count("down", self.down, least=0)
        checked_count("max_gamma", self.max_gamma, least=self.initial)

    def start(self, runs: int) -> IntArray:
        """The first round's draft length."""
        return np.full(runs, self.initial)

    def choose(self, memory: IntArray, alphas: FloatArray) -> IntArray:
        """The remembered draft length."""
        return memory

    def update(self, memory: IntArray, accepted: IntArray) -> IntArray:
        """Longer if all were accepted, else shorter."""
        moved = np.where(accepted == memory, memory + self.up, memory - self.down)
        return np.clip(moved, 1, self.max_gamma)


@dataclass(frozen=True)
class ThresholdGamma(_Forgetful):
    """Stop after the first token whose own chance of acceptance is below a threshold.

    That token is still verified, as in engines that test the confidence of a token once drafted.

    Args:
        threshold: Least confidence to go on, in [0, 1].
        max_gamma: Longest draft, at least 1.
    """

    threshold: float
    max_gamma: int = 20

    def __post_init__(self) -> None:
        checked_probability("threshold", self.threshold)
        checked_count("max_gamma", self.max_gamma)

    def choose(self, memory: IntArray, alphas: FloatArray) -> IntArray:
        """One past the confident tokens."""
        confident: IntArray = np.logical_and.accumulate(alphas >= self.threshold, axis=1).sum(
            axis=1
        )
        return np.minimum(confident + 1, self.max_gamma)


@dataclass(frozen=True)
class ReachGamma(_Forgetful):
    """Optimal stopping: draft a token while its chance of being emitted is worth its cost.

    The k-th draft token adds ``alpha_1 ... alpha_k`` expected tokens and costs ``c``. At a
    long-run rate of ``s`` tokens per unit of time (the speedup, in target steps) it pays while the
    product is above ``s * c``; products only fall, so stopping at the first that does not pay is
    optimal.

    Args:
        reach: Least product, in [0, 1]: ``s * c`` at the optimum.
        max_gamma: Longest draft, at least 1; one token is always drafted.
    """

    reach: float
    max_gamma: int = 20

    def __post_init__(self) -> None:
        checked_probability("reach", self.reach)
        checked_count("max_gamma", self.max_gamma)

    def choose(self, memory: IntArray, alphas: FloatArray) -> IntArray:
        """As many tokens as pay, at least one."""
        paying: IntArray = (np.cumprod(alphas, axis=1) > self.reach).sum(axis=1)
        return np.maximum(paying, 1)
