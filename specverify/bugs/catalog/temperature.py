"""Temperature on one side alone, greedy steps that should be drawn, seeds that are lost."""

from __future__ import annotations

from typing import Any

import numpy as np

from specverify._arrays import FloatArray, IntArray
from specverify.bugs.base import Bug, Effect, Kind, Stage
from specverify.bugs.staged import Rows, StagedVerifier, replaced
from specverify.distributions import one_hot
from specverify.warping import SamplingParams, warp_probs

_HIDDEN = np.random.default_rng(0)


def _at_temperature(temperature: float) -> StagedVerifier:
    warp = SamplingParams(temperature=temperature)
    return StagedVerifier(view=lambda rows: replaced(rows, lambda law: warp_probs(law, warp)))


_COLD = _at_temperature(0.9)

TEMPERATURE_ON_TARGET = Bug(
    name="temperature_on_target",
    kind=Kind.VERIFY,
    stage=Stage.PARAMETERS,
    mathematics="p^(1/T) normalised in place of p, T = 0.9, the draft's q unchanged",
    expected_check="first marginal",
    callable=_COLD,
    row_law=_COLD.row_law,
    blind="uniform p",
    scene="P1",
)


def _cold_draft(rows: Rows) -> Rows:
    return rows._replace(draft=warp_probs(rows.draft, SamplingParams(temperature=0.9)))


_DRAFT_COLD = StagedVerifier(view=_cold_draft)

TEMPERATURE_ON_DRAFT = Bug(
    name="temperature_on_draft",
    kind=Kind.VERIFY,
    stage=Stage.PARAMETERS,
    mathematics="ratio and residual take q^(1/T) normalised, T = 0.9; drafts come from q",
    expected_check="first marginal",
    callable=_DRAFT_COLD,
    row_law=_DRAFT_COLD.row_law,
    blind="uniform q",
    scene="P2",
)

# Handed the laws at T = 0.5, it restores those at T = 1: p^(0.5) normalised.
_HOT = _at_temperature(2.0)

TARGET_AT_TEMPERATURE_ONE = Bug(
    name="target_at_temperature_one",
    kind=Kind.VERIFY,
    stage=Stage.PARAMETERS,
    mathematics="p scored at T = 1 where T = 0.5 was asked for",
    expected_check="first marginal",
    reference="vllm#9834, vllm#10198",
    callable=_HOT,
    row_law=_HOT.row_law,
    blind="T = 1",
    scene="T05",
)


class _OwnGenerator(StagedVerifier):
    """Draws from a generator of its own, whatever it is handed."""

    def __call__(
        self,
        target_probs: FloatArray,
        draft_probs: FloatArray,
        draft_tokens: IntArray,
        generator: np.random.Generator,
    ) -> tuple[Any, Any]:
        return super().__call__(target_probs, draft_probs, draft_tokens, _HIDDEN)


SEED_IGNORED = Bug(
    name="seed_ignored",
    kind=Kind.VERIFY,
    stage=Stage.RANDOMNESS,
    mathematics="the law is right; the draws do not come from the generator handed over",
    expected_check="replay",
    reference="vllm#6038, vllm#6034",
    effect=Effect.CONTRACT,
    callable=_OwnGenerator(),
    blind="every check of the law",
    scene="P1",
)

HARD_CODED_TEMPERATURE = Bug(
    name="hard_coded_temperature",
    kind=Kind.VERIFY,
    stage=Stage.PARAMETERS,
    mathematics="p scored at T = 1 where T = 0.5 was asked for, and no seed",
    expected_check="first marginal, replay",
    reference="lattice#388, lattice#974",
    callable=_OwnGenerator(view=_HOT.view),
    row_law=_HOT.row_law,
    blind="T = 1, but for the replay",
    scene="T05",
)


def _greedy(law: FloatArray) -> FloatArray:
    return np.asarray(one_hot(law.argmax(axis=-1), law.shape[-1]))


_ARGMAX = StagedVerifier(view=lambda rows: replaced(rows, _greedy))

VERIFY_ARGMAX = Bug(
    name="verify_argmax",
    kind=Kind.VERIFY,
    stage=Stage.PARAMETERS,
    mathematics="verification takes argmax p in place of p",
    expected_check="entropy, first marginal",
    reference="sglang#31214, sglang#37134",
    callable=_ARGMAX,
    row_law=_ARGMAX.row_law,
    blind="T = 0",
    scene="P1",
)

_ARGMAX_DRAFTS = StagedVerifier(view=lambda rows: rows._replace(target=_greedy(rows.target)))

ARGMAX_BEFORE_BONUS = Bug(
    name="argmax_before_bonus",
    kind=Kind.VERIFY,
    stage=Stage.PARAMETERS,
    mathematics="argmax p at the draft positions, p itself at the bonus",
    expected_check="law by index within the block",
    reference="ROCm/ATOM#2318",
    callable=_ARGMAX_DRAFTS,
    row_law=_ARGMAX_DRAFTS.row_law,
    blind="T = 0; the bonus position",
    scene="P1",
)

_ARGMAX_FINAL = StagedVerifier(
    residual=lambda target, _draft, _tokens: _greedy(target),
    bonus=lambda rows: _greedy(rows.bonus),
)

FINAL_ARGMAX = Bug(
    name="final_argmax",
    kind=Kind.VERIFY,
    stage=Stage.PARAMETERS,
    mathematics="correction and bonus are argmax p: the filtered law is dropped",
    expected_check="entropy, first marginal",
    reference="mistral.rs#2424",
    callable=_ARGMAX_FINAL,
    row_law=_ARGMAX_FINAL.row_law,
    blind="T = 0; first marginal where the residual is argmax p alone (P1)",
    scene="P2",
)
