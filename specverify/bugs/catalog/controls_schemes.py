"""Controls: other rules with the same law and fewer or more tokens a pass. None is biased."""

from __future__ import annotations

import numpy as np

from specverify._arrays import FloatArray, IntArray
from specverify.bugs.base import Bug, Effect, Kind, Role, Stage
from specverify.bugs.draws import Draws
from specverify.bugs.loops import Blocks, Request, StagedDecoder, text
from specverify.bugs.staged import Block, Rows, StagedVerifier, normalised
from specverify.distributions import one_hot


def _without(law: FloatArray, tokens: IntArray) -> FloatArray:
    return normalised(np.where(np.arange(law.shape[-1]) == tokens[..., None], 0, law))


ACCEPT_TARGET_PROBABILITY = Bug(
    name="accept_target_probability",
    kind=Kind.VERIFY,
    stage=Stage.ACCEPT,
    mathematics="accept p(x), correction ~ p without x: q p + sum_x q(x) p(y != x) = p",
    expected_check="acceptance sum p q in place of sum min(p, q)",
    reference="vllm#40149",
    effect=Effect.EFFICIENCY,
    role=Role.CONTROL,
    callable=StagedVerifier(
        accept=lambda target, _draft: target,
        residual=lambda target, _draft, tokens: _without(target, tokens),
    ),
    scene="P1",
)


class _SampleAndMatch(StagedVerifier):
    """Draws from the target and goes on while the draft had guessed the draw."""

    def block(self, rows: Rows, tokens: list[int], draws: Draws) -> Block:
        for i, token in enumerate(tokens):
            drawn = draws.token(rows.target[i])
            if drawn != token:
                return [*tokens[:i], drawn], i
        return [*tokens, draws.token(rows.bonus)], len(tokens)


SAMPLE_AND_MATCH = Bug(
    name="sample_and_match",
    kind=Kind.VERIFY,
    stage=Stage.ACCEPT,
    mathematics="emit a draw from p; the block goes on while it equals the draft",
    expected_check="acceptance sum p q in place of sum min(p, q)",
    reference="mlx-swift-lm#459, mlxcel#992, pegainfer#670",
    effect=Effect.EFFICIENCY,
    role=Role.CONTROL,
    callable=_SampleAndMatch(),
    scene="P1",
)


def _argmax(law: FloatArray) -> FloatArray:
    return np.asarray(one_hot(law.argmax(axis=-1), law.shape[-1]))


class _Siblings(StagedVerifier):
    """Tries the draft's two likeliest tokens in turn, each as if drawn with certainty."""

    def block(self, rows: Rows, tokens: list[int], draws: Draws) -> Block:
        for i, token in enumerate(tokens):
            left = rows.target[i]
            siblings = np.argsort(-rows.draft[i], kind="stable")[:2].tolist()
            taken = None
            for sibling in siblings:
                if draws.uniform() < float(left[sibling]):
                    taken = sibling
                    break
                left = _without(left, np.array(sibling))
            if taken != token:
                final = draws.token(left) if taken is None else taken
                return [*tokens[:i], final], i
        return [*tokens, draws.token(rows.bonus)], len(tokens)


DETERMINISTIC_SIBLINGS = Bug(
    name="deterministic_siblings",
    kind=Kind.DECODE,
    stage=Stage.DRAFT,
    mathematics="the top 2 of q in turn, each accepted with p(x), then zeroed and renormalised",
    expected_check="acceptance",
    reference="EAGLE#183, EAGLE#329",
    effect=Effect.EFFICIENCY,
    role=Role.CONTROL,
    callable=StagedDecoder(verifier=_Siblings(), proposal=_argmax),
    scene="M3",
)

ARGMAX_DRAFT_ONE_HOT = Bug(
    name="argmax_draft_one_hot",
    kind=Kind.DECODE,
    stage=Stage.DRAFT,
    mathematics="draft = argmax q, scored with a one-hot q: accepted with p(x)",
    expected_check="acceptance p(argmax q) in place of sum min(p, q)",
    reference="vllm#16899",
    effect=Effect.EFFICIENCY,
    role=Role.CONTROL,
    callable=StagedDecoder(
        verifier=StagedVerifier(view=lambda rows: rows._replace(draft=_argmax(rows.draft))),
        proposal=_argmax,
    ),
    scene="P1",
)

NO_BONUS = Bug(
    name="no_bonus",
    kind=Kind.VERIFY,
    stage=Stage.BONUS,
    mathematics="a fully accepted block earns no further token",
    expected_check="tokens/pass (1 - a^K)/(1 - a)",
    effect=Effect.EFFICIENCY,
    role=Role.CONTROL,
    callable=StagedVerifier(bonus=None),
    scene="P1",
)


def _room_left(request: Request, blocks: Blocks) -> int:
    return min(request.gamma, request.max_new_tokens - len(text(blocks)) - 1)


SHRINKING_GAMMA = Bug(
    name="shrinking_gamma",
    kind=Kind.DECODE,
    stage=Stage.STOPPING,
    mathematics="near the end no more is drafted than there is room for",
    expected_check="drafted tokens in the last pass",
    effect=Effect.EFFICIENCY,
    role=Role.CONTROL,
    callable=StagedDecoder(width=_room_left),
    scene="M3",
)


class _BlockVerification(StagedVerifier):
    """Judges prefixes by their joint ratio and keeps the longest that passes."""

    def block(self, rows: Rows, tokens: list[int], draws: Draws) -> Block:
        weight, kept, kept_weight = 1.0, 0, 1.0
        for i, token in enumerate(tokens):
            weight = min(1.0, weight * float(rows.target[i, token] / rows.draft[i, token]))
            if draws.uniform() < self._passes(rows, i + 1, weight):
                kept, kept_weight = i + 1, weight
        if kept == len(tokens):
            return [*tokens, draws.token(rows.bonus)], kept
        excess = np.clip(kept_weight * rows.target[kept] - rows.draft[kept], 0, None)
        return [*tokens[:kept], draws.token(normalised(excess))], kept

    @staticmethod
    def _passes(rows: Rows, length: int, weight: float) -> float:
        if length == len(rows.target):
            return weight
        excess = float(np.clip(weight * rows.target[length] - rows.draft[length], 0, None).sum())
        left = excess + 1 - weight
        return excess / left if left > 0 else 1.0


BLOCK_VERIFICATION = Bug(
    name="block_verification",
    kind=Kind.VERIFY,
    stage=Stage.ACCEPT,
    mathematics="prefixes accepted by the joint ratio prod p/q, longest first: more accepted",
    expected_check="tokens/pass at or above the standard rule's",
    reference="Sun et al. (2024), arXiv:2403.10444",
    effect=Effect.EFFICIENCY,
    role=Role.CONTROL,
    callable=_BlockVerification(),
    scene="M3",
)
