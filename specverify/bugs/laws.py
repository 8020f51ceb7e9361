"""Exact laws of the zoo's members, and how far they lie from the right one."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from functools import partial
from typing import Any

import numpy as np

from specverify._arrays import FloatArray
from specverify.bugs.base import Bug, Kind
from specverify.bugs.batches import StagedBatch, batch_law
from specverify.bugs.draws import Draws, enumerate_draws
from specverify.bugs.loops import StagedDecoder
from specverify.bugs.scenes import Scene, rows_scene
from specverify.bugs.staged import Rows, StagedVerifier
from specverify.errors import InvalidInputError
from specverify.sampler.trace import BlockTrace
from specverify.theory.completion_law import completion_law, completion_law_with_eos

__all__ = [
    "block_law",
    "emitted_law",
    "exact_tv",
    "kl_divergence",
    "law_distance",
    "samples_to_detect",
    "target_law",
]

Law = Mapping[Any, float]


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
    length = scene.gamma + 1 if bug.kind is Kind.VERIFY else scene.length
    request = scene.request()
    arguments = (request.target_next, request.prompt, length, scene.vocab_size)
    if scene.eos_token_id is not None and bug.kind is not Kind.VERIFY:
        return completion_law_with_eos(*arguments, eos_token_id=scene.eos_token_id)
    law = completion_law(*arguments)
    return {tuple(tokens): float(law[tuple(tokens)]) for tokens in np.argwhere(law > 0).tolist()}


def law_distance(law: Law, other: Law) -> float:
    """Total variation distance of two laws, given by outcome."""
    keys = law.keys() | other.keys()
    return 0.5 * math.fsum(abs(law.get(key, 0.0) - other.get(key, 0.0)) for key in keys)


def exact_tv(bug: Bug, scene: Scene) -> float:
    """Total variation distance between the law that ``bug`` emits on ``scene`` and the target's.

    Batched members are compared on :data:`specverify.bugs.batches.DISJOINT_ROWS`, whatever the
    scene.
    """
    if isinstance(bug.callable, StagedBatch):
        return law_distance(batch_law(bug.callable), batch_law(StagedBatch()))
    return law_distance(emitted_law(bug, scene), target_law(bug, scene))


def kl_divergence(law: Law, other: Law) -> float:
    """``sum law * log(law / other)`` in nats; infinite where ``other`` has no mass."""
    if any(mass > 0 and other.get(key, 0.0) <= 0 for key, mass in law.items()):
        return math.inf
    return math.fsum(m * math.log(m / other[key]) for key, m in law.items() if m > 0)


def samples_to_detect(bug: Bug, scene: Scene, *, level: float = 1e-6) -> float:
    """Completions after which a bet on the true alternative is expected to reach ``1 / level``.

    Nobody can need fewer on average: the oracle's likelihood ratio grows by the divergence
    ``KL(emitted || target)`` with each completion.

    Args:
        bug: The implementation.
        scene: Where it is observed.
        level: False-alarm level in (0, 1).

    Returns:
        ``log(1 / level) / KL``, at least 1; infinite where the laws coincide.

    Raises:
        InvalidInputError: If the level is outside (0, 1).
    """
    if not 0 < level < 1:
        raise InvalidInputError("level", f"must lie in (0, 1), got {level}")
    law, right = emitted_law(bug, scene), target_law(bug, scene)
    if law_distance(law, right) < 1e-12:
        return math.inf
    return max(1.0, math.log(1 / level) / kl_divergence(law, right))


def _block_on(
    verifier: StagedVerifier, scene: Scene, *, complete: bool
) -> dict[tuple[int, ...], float]:
    request = scene.request()

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
