"""The right laws, taken from the wrong place."""

from __future__ import annotations

import numpy as np

from specverify.bugs.base import Bug, Kind, Stage
from specverify.bugs.staged import Rows, StagedVerifier


def _draft_rolled(rows: Rows) -> Rows:
    return rows._replace(draft=np.roll(rows.draft, 1, axis=-2))


DRAFT_ROW_OFF = Bug(
    name="draft_row_off",
    kind=Kind.VERIFY,
    stage=Stage.ROWS,
    mathematics="ratio and residual take q of the position before (the last one for the first)",
    expected_check="transitions",
    callable=StagedVerifier(view=_draft_rolled),
    blind="gamma 1; the same draft row at every position",
    scene="M3",
)


def _target_shifted(rows: Rows) -> Rows:
    after = np.concatenate([rows.target[..., 1:, :], rows.bonus[..., None, :]], axis=-2)
    return rows._replace(target=after)


TARGET_ROW_OFF = Bug(
    name="target_row_off",
    kind=Kind.VERIFY,
    stage=Stage.ROWS,
    mathematics="draft i is verified against p of position i + 1",
    expected_check="transitions",
    reference="LLMSpeculativeSampling#29",
    callable=StagedVerifier(view=_target_shifted),
    blind="the same target row at every position",
    scene="M3",
)


def _draft_first_row(rows: Rows) -> Rows:
    return rows._replace(draft=np.broadcast_to(rows.draft[..., :1, :], rows.draft.shape))


DIAGONAL_GATHER = Bug(
    name="diagonal_gather",
    kind=Kind.VERIFY,
    stage=Stage.ROWS,
    mathematics="q[:, x] is K x K and its first row is taken where its diagonal is meant",
    expected_check="joint",
    reference="TensorRT-LLM#6542",
    callable=StagedVerifier(view=_draft_first_row),
    blind="gamma 1; the same draft row at every position",
    scene="M3",
)
