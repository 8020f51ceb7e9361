"""Kernels that take their noise as arguments: the law is read off their answers, nothing is traced.

A kernel verifies one block with given uniforms (one an accept test) and exponentials (one a token,
for the race that draws the last one). Each acceptance threshold is bisected on its uniform, each
weight of each last draw on a pair of exponentials. The kernel's answers to thousands of random
noises must then be the ones predicted: so a kernel whose tests depend on something else shows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from specverify._arrays import FloatArray, IntArray
from specverify.errors import InvalidInputError
from specverify.exact.hybrid import standard_conditional_law
from specverify.exact.kernel_law import KernelCheck, KernelLaw, Mismatch, rows_distance
from specverify.stats.intervals import clopper_pearson

__all__ = ["BlackBoxKernel"]

_PAD = -1
# An exponential that never wins.
_NEVER = 1e30
# Least weight, relative to the largest, that is told from zero.
_FAINTEST = -60.0
# Halvings of a threshold's interval, and of a weight's logarithm's.
_BITS = {"float64": (50, 56), "float32": (22, 30)}


class BlackBoxKernel:
    """A verification kernel, seen from outside.

    Args:
        run: ``run(uniforms, exponentials)``, arrays of shapes ``(batch, gamma)`` and
            ``(batch, vocab)``, gives the ids that the same block emits under each noise, shape
            ``(batch, gamma + 1)``, padded with -1. The last token is the argmax of weight over
            exponential; a token that is given and not drawn is a law of one point.
        drafts: The drafted ids of that block.
        vocab_size: Tokens of the vocabulary.
        dtype: Dtype of the noise, ``"float64"`` or ``"float32"``; says how fine bisection goes.
        batch: Most blocks in a call.
    """

    def __init__(
        self,
        run: Callable[[FloatArray, FloatArray], Any],
        drafts: Sequence[int],
        vocab_size: int,
        *,
        dtype: str = "float64",
        batch: int = 512,
    ) -> None:
        if dtype not in _BITS:
            raise InvalidInputError("dtype", f"must be float64 or float32, got {dtype!r}")
        self.drafts = tuple(int(token) for token in drafts)
        self.vocab_size, self.dtype, self.batch = vocab_size, dtype, batch
        self.calls = 0
        self._run = run
        self._top = float(np.nextafter(np.ones((), dtype), np.zeros((), dtype)))

    @property
    def gamma(self) -> int:
        """Number of drafts."""
        return len(self.drafts)

    def answers(self, uniforms: FloatArray, exponentials: FloatArray) -> IntArray:
        """What the kernel emits under each noise, shape ``(n, gamma + 1)``."""
        parts = []
        for start in range(0, len(uniforms), self.batch):
            noise = (a[start : start + self.batch] for a in (uniforms, exponentials))
            parts.append(np.asarray(self._run(*(a.astype(self.dtype) for a in noise))))
            self.calls += 1
        emitted = np.concatenate(parts)
        if emitted.shape != (len(uniforms), self.gamma + 1):
            raise InvalidInputError(
                "run", f"gave shape {emitted.shape} for {len(uniforms)} blocks of {self.gamma}"
            )
        return emitted

    def recover(self) -> KernelLaw:
        """Read thresholds and weights off the kernel's answers."""
        self.calls = 0
        thresholds, width = self._thresholds()
        weights, slack = [], [float(width.sum())]
        for place in range(self.gamma + 1):
            reachable = bool((thresholds[:place] > 0).all())
            ends = place == self.gamma or thresholds[place] < 1
            found = self._weights(place) if reachable and ends else None
            weights.append(None if found is None else found[0])
            slack.append(0.0 if found is None else found[1])
        return KernelLaw(
            drafts=self.drafts,
            thresholds=thresholds,
            weights=tuple(weights),
            error=math.fsum(slack),
            calls=self.calls,
        )

    def check(
        self,
        target_probs: Any,
        draft_probs: Any,
        *,
        generator: np.random.Generator,
        trials: int = 4000,
        tolerance: float | None = None,
    ) -> KernelCheck:
        """Read the law off, compare it with the standard rule's, and predict random answers.

        Args:
            target_probs: Target rows of the block, shape ``(gamma + 1, vocab)``.
            draft_probs: Draft rows, shape ``(gamma, vocab)``.
            generator: Draws the noises.
            trials: Noises to try.
            tolerance: Deviation to forgive; 1e-9, or 1e-5 for float32, by default.

        Raises:
            InvalidInputError: If shapes do not fit, or the kernel's answers are of another one.
        """
        law = self.recover()
        missed, first = self._misses(law, generator, trials)
        standard = standard_conditional_law(target_probs, draft_probs, self.drafts)
        if tolerance is None:
            tolerance = 1e-9 if self.dtype == "float64" else 1e-5
        return KernelCheck(
            law=law,
            deviation=rows_distance(law.rows(), standard),
            mismatch=first,
            mismatches=missed,
            trials=trials,
            unpredicted_bound=clopper_pearson(missed, trials, confidence=1 - 2e-6)[1],
            tolerance=tolerance,
        )

    # --- bisection

    def _thresholds(self) -> tuple[FloatArray, FloatArray]:
        """Acceptance thresholds, all positions at once, and how wide they are known."""
        low, high = np.zeros(self.gamma), np.ones(self.gamma)
        ones = np.ones((self.gamma, self.vocab_size))
        for _ in range(_BITS[self.dtype][0]):
            middle = (low + high) / 2
            passed = self._lengths(np.diag(middle), ones) > np.arange(1, self.gamma + 1)
            low, high = np.where(passed, middle, low), np.where(passed, high, middle)
        always = self._lengths(np.eye(self.gamma) * self._top, ones) > np.arange(1, self.gamma + 1)
        never = high <= 2.0 ** -_BITS[self.dtype][0]
        found = np.where(always, 1.0, np.where(never, 0.0, high))
        return found, np.where(always | never, 0.0, high - low)

    def _lengths(self, uniforms: FloatArray, exponentials: FloatArray) -> IntArray:
        found: IntArray = (self.answers(uniforms, exponentials) != _PAD).sum(axis=1)
        return found

    def _weights(self, place: int) -> tuple[FloatArray, float]:
        """Law of the last token after ``place`` accepted drafts, and its uncertainty."""
        size = self.vocab_size
        uniforms = np.zeros((size, self.gamma))
        uniforms[:, place : place + 1] = self._top
        best = int(self.answers(uniforms[:1], np.ones((1, size)))[0, place])
        noise = np.full((size, size), _NEVER)
        noise[:, best] = 1.0
        low, high = np.full(size, _FAINTEST), np.full(size, 1.0)
        tokens = np.arange(size)
        for _ in range(_BITS[self.dtype][1]):
            middle = (low + high) / 2
            noise[tokens, tokens] = np.where(tokens == best, 1.0, np.exp(middle))
            wins = self.answers(uniforms, noise)[:, place] == tokens
            low, high = np.where(wins, middle, low), np.where(wins, high, middle)
        weights = np.where(low <= _FAINTEST, 0.0, np.exp(high))
        weights[best] = 1.0
        return weights / weights.sum(), 2.0 * float((high - low).max()) + size * math.exp(_FAINTEST)

    # --- prediction

    def _misses(
        self, law: KernelLaw, generator: np.random.Generator, trials: int
    ) -> tuple[int, Mismatch | None]:
        uniforms = generator.random((trials, self.gamma))
        noise = generator.standard_exponential((trials, self.vocab_size))
        answers = self.answers(uniforms, noise)
        missed, first = 0, None
        for u, e, ids in zip(uniforms, noise, answers.tolist(), strict=True):
            emitted = tuple(token for token in ids if token != _PAD)
            predicted, margin = self._predict(law, u, e)
            if predicted == emitted or margin <= law.error:
                continue
            missed += 1
            first = first or Mismatch(
                uniforms=u, exponentials=e, predicted=predicted, emitted=emitted
            )
        return missed, first

    def _predict(
        self, law: KernelLaw, u: FloatArray, e: FloatArray
    ) -> tuple[tuple[int, ...], float]:
        """Tokens that the law gives, and how near the noise came to another answer."""
        passed = u < law.thresholds
        place = self.gamma if passed.all() else int(passed.argmin())
        margin = float(np.abs(u - law.thresholds)[: place + 1].min(initial=1.0))
        weights = law.weights[place]
        if weights is None:
            return self.drafts[:place], margin
        keys = np.sort(weights / e)
        gap = 1.0 - float(keys[-2] / keys[-1]) if len(keys) > 1 else 1.0
        return (*self.drafts[:place], int((weights / e).argmax())), min(margin, gap)
