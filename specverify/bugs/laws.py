"""Exact laws of the zoo's members, and how far they lie from the right one."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from functools import cache, lru_cache, partial
from typing import Any, NamedTuple

import numpy as np

from specverify._arrays import FloatArray
from specverify.bugs.base import Bug, Kind
from specverify.bugs.batches import StagedBatch, batch_law
from specverify.bugs.draws import Draws, enumerate_draws
from specverify.bugs.loops import StagedDecoder
from specverify.bugs.scenes import Scene, rows_scene
from specverify.bugs.staged import Rows, StagedVerifier, remembering
from specverify.errors import InvalidInputError
from specverify.sampler.trace import BlockTrace
from specverify.theory.completion_law import completion_law, completion_law_with_eos

__all__ = [
    "Laws",
    "block_law",
    "both_laws",
    "emitted_law",
    "exact_tv",
    "kl_divergence",
    "law_distance",
    "samples_to_detect",
    "target_law",
]

Law = Mapping[Any, float]
_EQUAL = 1e-12


class Laws(NamedTuple):
    """Two laws by outcome.

    Attributes:
        emitted: What comes out.
        right: What ought to.
    """

    emitted: Law
    right: Law

    def samples(self, level: float) -> float:
        """Observations after which a bet on ``emitted`` is expected to reach ``1 / level``.

        Nobody can need fewer on average: the oracle's likelihood ratio grows by the divergence
        ``KL(emitted || right)`` with each observation. Where outcomes are emitted that the right
        law excludes, the first of them is proof, and is waited for unless the others tell sooner.

        Args:
            level: False-alarm level in (0, 1).

        Returns:
            ``log(1 / level) / KL`` or one over the mass of the excluded outcomes, the smaller, at
            least 1; infinite where the laws coincide.

        Raises:
            InvalidInputError: If the level is outside (0, 1).
        """
        if not 0 < level < 1:
            raise InvalidInputError("level", f"must lie in (0, 1), got {level}")
        if law_distance(*self) < _EQUAL:
            return math.inf
        allowed = {key: mass for key, mass in self.emitted.items() if self.right.get(key, 0.0) > 0}
        gain = kl_divergence(allowed, self.right)
        betting = math.log(1 / level) / gain if gain > 0 else math.inf
        excluded = self.excluded
        return max(1.0, min(betting, 1 / excluded if excluded else math.inf))

    @property
    def excluded(self) -> float:
        """Mass of the emitted outcomes that the right law excludes."""
        return math.fsum(m for key, m in self.emitted.items() if self.right.get(key, 0.0) <= 0)


def block_law(
    verifier: StagedVerifier, target_probs: FloatArray, draft_probs: FloatArray
) -> dict[tuple[int, ...], float]:
    """Exact joint law of the ids that one block emits, drafts drawn from ``draft_probs``.

    Args:
        verifier: The implementation.
        target_probs: Target rows, shape ``(gamma + 1, vocab)``.
        draft_probs: Draft rows, shape ``(gamma, vocab)``.

    Returns:
        Probability of every emitted tuple.
    """
    return _block_on(verifier, rows_scene(target_probs, draft_probs), complete=False)


def emitted_law(bug: Bug, scene: Scene) -> dict[tuple[int, ...], float]:
    """Exact law of the completion that ``bug`` gives on ``scene``.

    A block verifier's block is completed to the scene's ``gamma + 1`` tokens from the target's own
    rows, so that laws of blocks of unequal lengths compare. A decoder decodes ``length`` tokens.

    Raises:
        InvalidInputError: If the member emits no tokens of its own (batched ones, counters).
    """
    if isinstance(bug.callable, StagedVerifier):
        return _block_on(bug.callable, scene, complete=True)
    if isinstance(bug.callable, StagedDecoder):
        return _completions(bug.callable, scene)
    raise InvalidInputError("bug", f"{bug.name} is a {bug.kind} and has no law on one sequence")


def target_law(bug: Bug, scene: Scene) -> dict[tuple[int, ...], float]:
    """The law that :func:`emitted_law` ought to equal."""
    return dict(_right(scene, whole=bug.kind is not Kind.VERIFY))


@lru_cache(maxsize=64)
def _right(scene: Scene, *, whole: bool) -> Law:
    """The target's law of whole completions, or of a block's ``gamma + 1`` tokens."""
    length = scene.length if whole else scene.gamma + 1
    request = scene.request()
    arguments = (request.target_next, request.prompt, length, scene.vocab_size)
    if whole and scene.eos_token_id is not None:
        return completion_law_with_eos(*arguments, eos_token_id=scene.eos_token_id)
    law = completion_law(*arguments)
    return {tuple(tokens): float(law[tuple(tokens)]) for tokens in np.argwhere(law > 0).tolist()}


def both_laws(bug: Bug, scene: Scene) -> Laws:
    """The law that ``bug`` emits on ``scene``, and the one that it ought to.

    Batched members are compared on :data:`specverify.bugs.batches.DISJOINT_ROWS`, whatever the
    scene.

    Raises:
        InvalidInputError: If the member is a counter, which emits nothing.
    """
    if isinstance(bug.callable, StagedBatch):
        return Laws(batch_law(bug.callable), _right_batch())
    return Laws(emitted_law(bug, scene), _right(scene, whole=bug.kind is not Kind.VERIFY))


@cache
def _right_batch() -> Law:
    return batch_law(StagedBatch())


def law_distance(law: Law, other: Law) -> float:
    """Total variation distance of two laws, given by outcome."""
    keys = law.keys() | other.keys()
    return 0.5 * math.fsum(abs(law.get(key, 0.0) - other.get(key, 0.0)) for key in keys)


def exact_tv(bug: Bug, scene: Scene) -> float:
    """Total variation distance of the two laws of :func:`both_laws`."""
    return law_distance(*both_laws(bug, scene))


def kl_divergence(law: Law, other: Law) -> float:
    """``sum law * log(law / other)`` in nats; infinite where ``other`` has no mass."""
    if any(mass > 0 and other.get(key, 0.0) <= 0 for key, mass in law.items()):
        return math.inf
    return math.fsum(m * math.log(m / other[key]) for key, m in law.items() if m > 0)


def samples_to_detect(bug: Bug, scene: Scene, *, level: float = 1e-6) -> float:
    """Completions that the oracle needs; see :meth:`Laws.samples`.

    Raises:
        InvalidInputError: If the level is outside (0, 1), or the member is a counter.
    """
    return both_laws(bug, scene).samples(level)


def _block_on(
    verifier: StagedVerifier, scene: Scene, *, complete: bool
) -> dict[tuple[int, ...], float]:
    request, verifier = scene.request(), remembering(verifier)

    def run(draws: Draws) -> tuple[int, ...]:
        context = request.prompt
        drafted: list[int] = []
        draft: list[FloatArray] = []
        for _ in range(scene.gamma):
            draft.append(request.draft_next((*context, *drafted)))
            drafted.append(draws.token(draft[-1]))
        target = [request.target_next((*context, *drafted[:i])) for i in range(scene.gamma + 1)]
        rows = Rows(np.array(target[:-1]), np.array(draft), target[-1])
        emitted, _ = verifier.block(rows, drafted, draws)
        inside = all(token < scene.vocab_size for token in emitted)
        while complete and inside and len(emitted) <= scene.gamma:
            emitted.append(draws.token(request.target_next((*context, *emitted))))
        return tuple(emitted)

    return enumerate_draws(run)


def _completions(decoder: StagedDecoder, scene: Scene) -> dict[tuple[int, ...], float]:
    """Pass by pass, merging the paths whose future is the same."""
    request = decoder.prepare(scene.request())
    law: dict[tuple[int, ...], float] = {}
    states: dict[Hashable, tuple[tuple[BlockTrace, ...], float]] = {(): ((), 1.0)}
    while states:
        longer: dict[Hashable, tuple[tuple[BlockTrace, ...], float]] = {}
        for blocks, mass in states.values():
            step = enumerate_draws(partial(decoder.block, request, blocks))
            for block, probability in step.items():
                after = (*blocks, block)
                kept, over = decoder.cut(request, after)
                if over:
                    law[kept] = law.get(kept, 0.0) + mass * probability
                    continue
                key = decoder.memory(after)
                merged = longer.get(key, (after, 0.0))[1] + mass * probability
                longer[key] = (after, merged)
        states = longer
    return law
