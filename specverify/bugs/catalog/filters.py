"""Filters, masks and penalties that one side does not see."""

from __future__ import annotations

import numpy as np

from specverify._arrays import FloatArray
from specverify.bugs.base import Bug, Kind, Stage
from specverify.bugs.loops import StagedDecoder
from specverify.bugs.staged import Rows, StagedVerifier, normalised, replaced
from specverify.warping import SamplingParams, warp_probs

_PENALTY = 0.5


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
