"""Rounding, tails and the ends of the unit interval."""

from __future__ import annotations

from typing import Any

import numpy as np

from specverify._arrays import FloatArray, IntArray
from specverify.bugs.base import Bug, Effect, Kind, Stage
from specverify.bugs.staged import Rows, StagedVerifier, replaced
from specverify.distributions import residual_distribution

_BLOCK = 2


def _fp16_draft(rows: Rows) -> Rows:
    return rows._replace(draft=rows.draft.astype(np.float16).astype(np.float64))


_ROUNDED = StagedVerifier(view=_fp16_draft)

DRAFT_IN_FLOAT16 = Bug(
    name="draft_in_float16",
    kind=Kind.VERIFY,
    stage=Stage.NUMERICS,
    mathematics="ratio and residual take q rounded to fp16; drafts come from q",
    expected_check="exact law",
    callable=_ROUNDED,
    row_law=_ROUNDED.row_law,
    blind="any sample below about 1e6 tokens",
    scene="P1",
)


def _tail_beyond(law: FloatArray) -> FloatArray:
    """The last, partial block of ids is not read: its mass ends at id ``vocab``."""
    whole = law.shape[-1] // _BLOCK * _BLOCK
    tail = law[..., whole:].sum(axis=-1, keepdims=True)
    return np.concatenate([law[..., :whole], np.zeros_like(law[..., whole:]), tail], axis=-1)


def _tail_residual(target: FloatArray, draft: FloatArray, _tokens: IntArray) -> FloatArray:
    return _tail_beyond(np.asarray(residual_distribution(target, draft)))


ID_BEYOND_VOCABULARY = Bug(
    name="id_beyond_vocabulary",
    kind=Kind.VERIFY,
    stage=Stage.NUMERICS,
    mathematics="the mass of a partial last block of ids (blocks of 2) is emitted as id V",
    expected_check="support",
    reference="vllm#44744, vllm#21876, vllm#53029",
    callable=StagedVerifier(residual=_tail_residual, bonus=lambda rows: _tail_beyond(rows.bonus)),
    blind="V a multiple of the block",
    scene="P1",
)


def _coarse(law: FloatArray) -> FloatArray:
    """The law that inversion of a distribution function summed in fp16 gives."""
    edges = np.cumsum(law, axis=-1, dtype=np.float16).astype(np.float64)
    edges = np.minimum(edges, 1.0)
    edges[..., -1] = 1.0
    steps: FloatArray = np.diff(np.maximum.accumulate(edges, axis=-1), axis=-1, prepend=0.0)
    return steps


SILENT_LAST_ID = Bug(
    name="silent_last_id",
    kind=Kind.VERIFY,
    stage=Stage.NUMERICS,
    mathematics="the distribution function is summed in fp16; what it lacks falls to the last id",
    expected_check="exact law; last id at a large vocabulary",
    reference="vllm#21876, vllm#53029",
    callable=StagedVerifier(
        residual=lambda target, draft, _: _coarse(residual_distribution(target, draft)),
        bonus=lambda rows: _coarse(rows.bonus),
    ),
    blind="any sample at a small vocabulary",
    scene="P1",
)


class _ClosedUniform(StagedVerifier):
    """Tests ``u < p/q`` with u cast to float32, where it can be 1."""

    def __call__(
        self,
        target_probs: FloatArray,
        draft_probs: FloatArray,
        draft_tokens: IntArray,
        generator: np.random.Generator,
    ) -> tuple[Any, Any]:
        if draft_tokens.ndim == 2:
            return super().__call__(target_probs, draft_probs, draft_tokens, generator)
        for i, token in enumerate(draft_tokens.tolist()):
            ratio = target_probs[i, token] / draft_probs[i, token]
            if not np.float32(generator.random()) < min(ratio, 1.0):
                excess = np.clip(target_probs[i] - draft_probs[i], 0, None)
                # Without mass the inversion runs past the end.
                final = int((np.cumsum(excess) <= generator.random() * excess.sum()).sum())
                return [*draft_tokens[:i].tolist(), final], i
        bonus = int(generator.choice(target_probs.shape[-1], p=target_probs[-1]))
        return [*draft_tokens.tolist(), bonus], len(draft_tokens)


CLOSED_UNIFORM = Bug(
    name="closed_uniform",
    kind=Kind.VERIFY,
    stage=Stage.NUMERICS,
    mathematics="a uniform cast to float32 can be 1: a draft with p = q is rejected (2^-25)",
    expected_check="injected uniform",
    reference="sglang#30822",
    effect=Effect.CONTRACT,
    callable=_ClosedUniform(),
    blind="every sample",
    scene="equal",
)


def _no_law_when_greedy(law: FloatArray) -> FloatArray:
    sure = law.max(axis=-1, keepdims=True) >= 1
    return np.where(sure, 1 / law.shape[-1], law)


GREEDY_WITHOUT_LAW = Bug(
    name="greedy_without_law",
    kind=Kind.VERIFY,
    stage=Stage.NUMERICS,
    mathematics="T = 0 leaves no probabilities: a one-hot p is read as a uniform one",
    expected_check="T = 0",
    reference="llama.cpp#5657",
    callable=StagedVerifier(view=lambda rows: replaced(rows, _no_law_when_greedy)),
    blind="T > 0",
    scene="greedy",
)
