"""Does a verifier follow the standard rule at a large vocabulary? Exact, given drafts that it drew.

For sampled drafts the whole law of what is emitted is known and compared with the standard rule's:
a deviation proves another rule (perhaps a lossless one), agreement is exact on those drafts. With
one draft a block all of them can be gone through, which gives bounds on the law's own distance.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from specverify._arrays import FloatArray, to_numpy
from specverify.errors import InvalidInputError
from specverify.exact.hybrid import (
    ConditionalLaw,
    exact_conditional_law,
    standard_conditional_law,
)
from specverify.exact.law import TvBounds

__all__ = ["Conformance", "OneDraftLaw", "check_conformance", "exact_one_draft_law"]

# Largest deviation that rounding explains, by dtype of the rows: sums over more tokens round more.
_ROUNDING = {"float64": 1e-12, "float32": 1e-6}
_MANY_TOKENS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Conformance:
    """Whether a verifier follows the standard rule.

    Attributes:
        laws: What it emits given each of the sampled drafts.
        deviations: Total variation distance of each from the standard rule's law.
        tolerance: Deviation that rounding explains.
        first_token: Mean law of the first token over the drafts, shape ``(vocab,)``: an estimate of
            its law with only the drafts' sampling noise.
    """

    laws: tuple[ConditionalLaw, ...]
    deviations: tuple[float, ...]
    tolerance: float
    first_token: FloatArray

    @property
    def conforms(self) -> bool:
        """Whether no draft tells it from the standard rule; no verdict on the law if it does."""
        return max(self.deviations) <= self.tolerance


def check_conformance(
    verify: Callable[..., Any],
    target_probs: Any,
    draft_probs: Any,
    *,
    generator: np.random.Generator,
    drafts: int = 16,
    tolerance: float | None = None,
    **options: Any,
) -> Conformance:
    """Compare a verifier with the standard rule, exactly, on sampled drafts.

    Args:
        verify: ``verify(target_probs, draft_probs, draft_tokens[, generator])``.
        target_probs: Target rows, shape ``(gamma + 1, vocab)``, numpy or torch.
        draft_probs: Draft rows, shape ``(gamma, vocab)``.
        generator: Draws the drafts from the draft rows.
        drafts: Blocks of drafts to draw, at least 1.
        tolerance: Deviation to forgive; by default 1e-12 for float64 rows and 1e-6 for float32, for
            every thousand tokens.
        options: As for :func:`exact_conditional_law`.

    Raises:
        UnsupportedRandomness: As :func:`exact_conditional_law`.
        InvalidInputError: If the shapes do not fit or ``drafts`` is not positive.
    """
    if drafts < 1:
        raise InvalidInputError("drafts", f"must be at least 1, got {drafts}")
    rows = to_numpy(draft_probs).astype(np.float64)
    rows = rows / rows.sum(axis=-1, keepdims=True)
    laws, deviations = [], []
    for _ in range(drafts):
        tokens = [int(generator.choice(len(row), p=row)) for row in rows]
        laws.append(exact_conditional_law(verify, target_probs, draft_probs, tokens, **options))
        deviations.append(
            laws[-1].distance(standard_conditional_law(target_probs, draft_probs, tokens))
        )
    return Conformance(
        laws=tuple(laws),
        deviations=tuple(deviations),
        tolerance=_tolerance(target_probs) if tolerance is None else tolerance,
        first_token=np.mean([law.first_token() for law in laws], axis=0),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class OneDraftLaw:
    """The emitted law with one draft a block.

    Attributes:
        first_token: Exact law of the first token, shape ``(vocab,)``.
        first_token_tv: Its total variation distance from the target's.
        tv: Bounds of the distance over two tokens, what is short continued by the target.
        paths: Runs of the verifier.
        seconds: CPU time.
    """

    first_token: FloatArray
    first_token_tv: float
    tv: TvBounds
    paths: int
    seconds: float


def exact_one_draft_law(
    verify: Callable[..., Any], target_probs: Any, draft_probs: Any, **options: Any
) -> OneDraftLaw:
    """Exact law of a verifier with one draft a block: linear in the vocabulary.

    Every draft is gone through, the last token stays a row.

    Args:
        verify: As for :func:`exact_conditional_law`.
        target_probs: Target rows, shape ``(2, vocab)``.
        draft_probs: Draft row, shape ``(1, vocab)``.
        options: As for :func:`exact_conditional_law`.

    Raises:
        UnsupportedRandomness: As :func:`exact_conditional_law`.
        InvalidInputError: If there is not one draft row.
    """
    target, draft = (to_numpy(rows).astype(np.float64) for rows in (target_probs, draft_probs))
    if draft.shape[:-1] != (1,):
        raise InvalidInputError("draft_probs", f"needs one row, got {draft.shape}")
    tally = _Pairs(target)
    for token in np.flatnonzero(draft[0]).tolist():
        law = exact_conditional_law(verify, target_probs, draft_probs, [token], **options)
        tally.add(law, token, float(draft[0, token]))
    return tally.law()


class _Pairs:
    """First tokens, and how far the second one's law lies from the target's after them."""

    def __init__(self, target: FloatArray) -> None:
        self.target = target
        self.first = np.zeros(target.shape[1])
        # Second tokens after the draft itself; after anything else they might cancel.
        self.own, self.others = list[float](), list[float]()
        self.wrong: list[float] = []
        self.paths, self.seconds = 0, 0.0

    def add(self, law: ConditionalLaw, token: int, mass: float) -> None:
        self.first += mass * law.first_token()
        self.wrong.append(mass * (law.invalid_mass + math.fsum(law.exceptions.values())))
        self.paths, self.seconds = self.paths + law.paths, self.seconds + law.seconds
        for before, row in law.rows.items():
            if before:
                apart = 0.5 * mass * float(np.abs(row - row.sum() * self.target[1]).sum())
                (self.own if before == (token,) else self.others).append(apart)

    def law(self) -> OneDraftLaw:
        lost = math.fsum(self.wrong)
        first = float(np.maximum(self.target[0] - self.first, 0.0).sum())
        own, others = math.fsum(self.own), math.fsum(self.others)
        return OneDraftLaw(
            first_token=self.first,
            first_token_tv=first,
            tv=TvBounds(max(first, own - others - first), min(first + own + others + lost, 1.0)),
            paths=self.paths,
            seconds=self.seconds,
        )


def _tolerance(rows: Any) -> float:
    rounding = _ROUNDING.get(str(rows.dtype).rpartition(".")[2], 1e-2)
    return rounding * max(1.0, int(rows.shape[-1]) / _MANY_TOKENS)
