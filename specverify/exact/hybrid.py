"""Large vocabularies: the law of a block given its drafts, with the last draw kept symbolic.

A block of given drafts is decided by a few accept tests and one draw from a row of the vocabulary's
size. The tests are enumerated; the draw is not, where it is the last choice of its path. A token
that nobody reads keeps its whole row. One that is read is followed for the drafted ids and for a
few probes, which must show that the draw's index is the emitted token (or runs against it).

What comes out is compared with the standard rule's law given the same drafts. Other rules can be
lossless too, so agreement is conformance to that rule; only for one draft, where all of them can be
gone through, is it a verdict on the emitted law (:mod:`specverify.exact.one_draft`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from specverify._arrays import FloatArray, is_torch, to_numpy
from specverify.distributions import residual_distribution
from specverify.errors import InvalidInputError
from specverify.exact.calling import Framework, VerifyForm, block_call
from specverify.exact.last_draw import LastDraws

__all__ = ["ConditionalLaw", "exact_conditional_law", "standard_conditional_law"]

_SMALLEST_VOCAB = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionalLaw:
    """What a verifier emits, given the drafts.

    Attributes:
        drafts: The drafted ids.
        rows: For what was emitted before the last token, the mass of each last token, float64,
            shape ``(vocab,)``.
        invalid_mass: Probability of ids outside the vocabulary.
        exceptions: Mass of each exception, by ``"Type: message"``.
        paths: Runs of the verifier.
        seconds: CPU time.
    """

    drafts: tuple[int, ...]
    rows: Mapping[tuple[int, ...], FloatArray]
    invalid_mass: float
    exceptions: Mapping[str, float]
    paths: int
    seconds: float

    def first_token(self) -> FloatArray:
        """Law of the first emitted token, shape ``(vocab,)``; short of one by invalid mass."""
        total = np.zeros_like(next(iter(self.rows.values())))
        for before, row in self.rows.items():
            if before:
                total[before[0]] += row.sum()
            else:
                total += row
        return total

    def distance(self, other: Mapping[tuple[int, ...], FloatArray]) -> float:
        """Total variation distance from another law of the same shape (invalid mass counts)."""
        apart = [self.invalid_mass, *self.exceptions.values()]
        for before in self.rows.keys() | other.keys():
            mine, its = self.rows.get(before, 0.0), other.get(before, 0.0)
            apart.append(float(np.abs(mine - its).sum()))
        return 0.5 * math.fsum(apart)


def exact_conditional_law(
    verify: Callable[..., Any],
    target_probs: Any,
    draft_probs: Any,
    draft_tokens: Sequence[int],
    *,
    form: VerifyForm = "verify",
    framework: Framework | None = None,
    probes: int = 3,
) -> ConditionalLaw:
    """Exact law of what a verifier emits, given the drafts, at any size of the vocabulary.

    Args:
        verify: ``verify(target_probs, draft_probs, draft_tokens[, generator])``.
        target_probs: Target rows, shape ``(gamma + 1, vocab)``, numpy or torch; 4 tokens at least.
        draft_probs: Draft rows, shape ``(gamma, vocab)``.
        draft_tokens: Drafted ids, ``gamma`` of them.
        form: ``"verify"`` or ``"batched"``.
        framework: What to hand over; that of ``target_probs`` by default.
        probes: Indices of a last draw that is read to try beside the drafted ids; with 2 or more
            of them an index is known to be the token.

    Returns:
        The law; float32 rows give it with their rounding.

    Raises:
        UnsupportedRandomness: If the verifier cannot be traced, chooses something after a draw from
            the vocabulary that is no drafted id, or emits something else than what it drew.
        InvalidInputError: If the shapes do not fit.
    """
    target, draft = to_numpy(target_probs), to_numpy(draft_probs)
    drafts = tuple(int(token) for token in draft_tokens)
    _check(target, draft, drafts)
    framework = framework or ("torch" if is_torch(target_probs) else "numpy")
    call = block_call(verify, form=form, framework=framework, dtype=str(target.dtype))
    start = time.process_time()
    draws = LastDraws(target.shape[1], drafts, probes)
    draws.explore(lambda: call(target, draft, drafts)[0])
    return ConditionalLaw(
        drafts=drafts,
        rows=draws.rows,
        invalid_mass=math.fsum(draws.invalid),
        exceptions={message: math.fsum(masses) for message, masses in draws.exceptions.items()},
        paths=draws.runs,
        seconds=time.process_time() - start,
    )


def standard_conditional_law(
    target_probs: Any, draft_probs: Any, draft_tokens: Sequence[int]
) -> dict[tuple[int, ...], FloatArray]:
    """Law of what the standard rule emits, given the drafts.

    Args:
        target_probs: Target rows, shape ``(gamma + 1, vocab)``.
        draft_probs: Draft rows, shape ``(gamma, vocab)``.
        draft_tokens: Drafted ids, each of positive draft probability.

    Returns:
        For each accepted prefix, the mass of each last token, float64, shape ``(vocab,)``.

    Raises:
        InvalidInputError: If the shapes do not fit.

    References:
        Leviathan et al. (2023), arXiv:2211.17192, algorithm 1.
    """
    target = to_numpy(target_probs).astype(np.float64)
    draft = to_numpy(draft_probs).astype(np.float64)
    drafts = tuple(int(token) for token in draft_tokens)
    _check(target, draft, drafts)
    law, reached = dict[tuple[int, ...], FloatArray](), 1.0
    for place, token in enumerate(drafts):
        accept = min(1.0, float(target[place, token] / draft[place, token]))
        if accept < 1.0:
            residual = np.asarray(residual_distribution(target[place], draft[place]))
            law[drafts[:place]] = reached * (1.0 - accept) * residual
        reached *= accept
        if reached == 0.0:
            return law
    law[drafts] = reached * target[-1]
    return law


def _check(target: Any, draft: Any, drafts: tuple[int, ...]) -> None:
    if target.ndim != 2 or target.shape[1] < _SMALLEST_VOCAB:
        raise InvalidInputError(
            "target_probs", f"needs (gamma + 1, vocab), 4 tokens at least, got {target.shape}"
        )
    if draft.shape != (len(target) - 1, target.shape[1]):
        raise InvalidInputError(
            "draft_probs", f"shape {draft.shape} does not fit target_probs' {target.shape}"
        )
    outside = [token for token in drafts if not 0 <= token < target.shape[1]]
    if len(drafts) != len(draft) or outside:
        raise InvalidInputError("draft_tokens", f"needs {len(draft)} ids below {target.shape[1]}")
