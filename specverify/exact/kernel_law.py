"""What was read off a kernel that takes its noise as arguments, and the verdict on it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from specverify._arrays import FloatArray

__all__ = ["KernelCheck", "KernelLaw", "Mismatch", "rows_distance"]


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelLaw:
    """What a kernel does with its noise, given the drafts.

    Attributes:
        drafts: The drafted ids.
        thresholds: A draft is accepted where its uniform is below; shape ``(gamma,)``.
        weights: Law of the last token after each number of accepted drafts, shape ``(vocab,)``;
            None where that number cannot end a block.
        error: Bound on the total variation that the bisections leave open.
        calls: Calls of the kernel.
    """

    drafts: tuple[int, ...]
    thresholds: FloatArray
    weights: tuple[FloatArray | None, ...]
    error: float
    calls: int

    def rows(self) -> dict[tuple[int, ...], FloatArray]:
        """The conditional law: for each accepted prefix the mass of each last token."""
        found, reached = dict[tuple[int, ...], FloatArray](), 1.0
        for place, weights in enumerate(self.weights):
            accept = float(self.thresholds[place]) if place < len(self.thresholds) else 0.0
            if weights is not None:
                found[self.drafts[:place]] = reached * (1.0 - accept) * weights
            reached *= accept
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Mismatch:
    """A noise to which the kernel's answer is not the predicted one.

    Attributes:
        uniforms: Shape ``(gamma,)``.
        exponentials: Shape ``(vocab,)``.
        predicted: Tokens that the recovered law gives.
        emitted: Tokens that the kernel gave.
    """

    uniforms: FloatArray
    exponentials: FloatArray
    predicted: tuple[int, ...]
    emitted: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelCheck:
    """Verdict on a kernel, given the drafts.

    Attributes:
        law: What was read off.
        deviation: Total variation distance of that law from the standard rule's.
        mismatch: The first unpredicted answer, or None.
        mismatches: Their number.
        trials: Random noises tried.
        unpredicted_bound: Upper bound, at confidence 1 - 1e-6, on the share of noises whose answers
            are not the predicted ones.
        tolerance: Deviation that is forgiven.
    """

    law: KernelLaw
    deviation: float
    mismatch: Mismatch | None
    mismatches: int
    trials: int
    unpredicted_bound: float
    tolerance: float

    @property
    def conforms(self) -> bool:
        """Whether the kernel follows the standard rule on these drafts, up to the two bounds."""
        return self.mismatch is None and self.deviation <= self.tolerance + self.law.error


def rows_distance(
    law: dict[tuple[int, ...], FloatArray], other: dict[tuple[int, ...], FloatArray]
) -> float:
    """Total variation distance of two conditional laws, by accepted prefix."""
    zero = np.zeros(())
    pairs = [(law.get(key, zero), other.get(key, zero)) for key in law.keys() | other.keys()]
    return 0.5 * math.fsum(float(np.abs(mine - its).sum()) for mine, its in pairs)
