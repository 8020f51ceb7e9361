"""Temperature, filters, penalties and masks that one side does not see."""

from __future__ import annotations

from typing import Any

import numpy as np

from specverify._arrays import FloatArray, IntArray
from specverify.bugs.base import Bug, Effect, Kind, Stage
from specverify.bugs.loops import StagedDecoder
from specverify.bugs.staged import Rows, StagedVerifier, normalised, replaced
from specverify.distributions import one_hot
from specverify.warping import SamplingParams, warp_probs

_PENALTY = 0.5
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


def _filtered(params: SamplingParams) -> StagedVerifier:
    return StagedVerifier(view=lambda rows: replaced(rows, lambda law: warp_probs(law, params)))


_TOP_K = _filtered(SamplingParams(top_k=2))

TOP_K_ON_TARGET = Bug(
    name="top_k_on_target",
    kind=Kind.VERIFY,
    stage=Stage.PARAMETERS,
    mathematics="p cut to its top 2, q not",
    expected_check="first marginal",
    callable=_TOP_K,
    row_law=_TOP_K.row_law,
    blind="two tokens; top-k below 3 already; the cut tied",
    scene="P1",
)

_TOP_P = _filtered(SamplingParams(top_p=0.75))

TOP_P_ON_TARGET = Bug(
    name="top_p_on_target",
    kind=Kind.VERIFY,
    stage=Stage.PARAMETERS,
    mathematics="p cut to the nucleus of mass 0.75, q not",
    expected_check="first marginal",
    callable=_TOP_P,
    row_law=_TOP_P.row_law,
    blind="a single token holds 0.75",
    scene="P1",
)


def _unmasked(rows: Rows) -> Rows:
    """A token that p forbids has the draft's mass instead: q never knew the mask."""
    open_rows = normalised(np.where(rows.target > 0, rows.target, rows.draft))
    return rows._replace(target=open_rows)


_UNMASKED = StagedVerifier(view=_unmasked)

PROCESSORS_UNUSED = Bug(
    name="processors_unused",
    kind=Kind.VERIFY,
    stage=Stage.PARAMETERS,
    mathematics="logits processors are not applied at verification: forbidden ids keep mass",
    expected_check="support",
    reference="mlx-examples#1255",
    callable=_UNMASKED,
    row_law=_UNMASKED.row_law,
    blind="rows without zeros",
    scene="masked",
)

_UNIFORM_SHARE = 0.1


def _leaky(law: FloatArray) -> FloatArray:
    """Zeros opened to a tenth of the mass."""
    open_law = (1 - _UNIFORM_SHARE) * law + _UNIFORM_SHARE * normalised((law == 0) * 1.0)
    return np.where((law == 0).any(axis=-1, keepdims=True), open_law, law)


MASK_MISSING_AT_BONUS = Bug(
    name="mask_missing_at_bonus",
    kind=Kind.VERIFY,
    stage=Stage.BONUS,
    mathematics="the grammar's mask is applied at the draft positions, not at the bonus",
    expected_check="support",
    reference="vllm#44292, vllm#44297",
    callable=StagedVerifier(bonus=lambda rows: _leaky(rows.bonus)),
    blind="bonus rows without zeros",
    scene="masked",
)


def _late_mask(rows: Rows) -> Rows:
    opened = _unmasked(rows)
    first = rows.target[..., :1, :]
    target = np.concatenate([first, opened.target[..., 1:, :]], axis=-2)
    return rows._replace(target=target)


MASK_LATE_IN_BLOCK = Bug(
    name="mask_late_in_block",
    kind=Kind.VERIFY,
    stage=Stage.PARAMETERS,
    mathematics="the grammar's mask does not advance within the block: missing from position 2",
    expected_check="support",
    reference="vllm#36138",
    callable=StagedVerifier(view=_late_mask),
    blind="gamma 1; rows without zeros",
    scene="masked",
)


def _penalise_last(row: FloatArray, new_tokens: tuple[int, ...]) -> FloatArray:
    if not new_tokens:
        return row
    again = np.where(np.arange(row.shape[-1]) == new_tokens[-1], _PENALTY, 1.0)
    return normalised(row * again)


PENALTY_TWICE = Bug(
    name="penalty_twice",
    kind=Kind.DECODE,
    stage=Stage.PARAMETERS,
    mathematics="the mass of the last new token is penalised once more (by 1/2)",
    expected_check="marginal from position 2",
    reference="vllm#33251",
    callable=StagedDecoder(target_row=_penalise_last),
    blind="first token; penalty 1",
    scene="P1",
)


def _unpenalise(row: FloatArray, new_tokens: tuple[int, ...]) -> FloatArray:
    seen = np.isin(np.arange(row.shape[-1]), new_tokens)
    return normalised(row / np.where(seen, _PENALTY, 1.0))


PENALTY_IGNORED = Bug(
    name="penalty_ignored",
    kind=Kind.DECODE,
    stage=Stage.PARAMETERS,
    mathematics="the presence penalty (1/2) of the new tokens is taken out of p again",
    expected_check="marginal from position 2",
    reference="TensorRT-LLM#17701, sglang#28180",
    callable=StagedDecoder(target_row=_unpenalise),
    blind="first token; penalty 1",
    scene="P1",
)
