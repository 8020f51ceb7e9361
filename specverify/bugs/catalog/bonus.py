"""The token after a fully accepted block comes from the wrong law."""

from __future__ import annotations

from specverify.bugs.base import Bug, Kind, Stage
from specverify.bugs.staged import StagedVerifier
from specverify.distributions import residual_distribution

BONUS_FROM_DRAFT = Bug(
    name="bonus_from_draft",
    kind=Kind.VERIFY,
    stage=Stage.BONUS,
    mathematics="bonus ~ q's last row in place of p's next one",
    expected_check="law by index within the block",
    callable=StagedVerifier(bonus=lambda rows: rows.draft[..., -1, :]),
    blind="first marginal",
    scene="P1",
)

BONUS_FROM_RESIDUAL = Bug(
    name="bonus_from_residual",
    kind=Kind.VERIFY,
    stage=Stage.BONUS,
    mathematics="bonus ~ (p - q)+ normalised of the last draft position",
    expected_check="law by index within the block",
    callable=StagedVerifier(
        bonus=lambda rows: residual_distribution(rows.target[..., -1, :], rows.draft[..., -1, :])
    ),
    blind="first marginal",
    scene="P1",
)

BONUS_PREVIOUS_ROW = Bug(
    name="bonus_previous_row",
    kind=Kind.VERIFY,
    stage=Stage.ROWS,
    mathematics="bonus ~ p's row of the last draft position, one too early",
    expected_check="transitions",
    callable=StagedVerifier(bonus=lambda rows: rows.target[..., -1, :]),
    blind="the same target row at every position",
    scene="M3",
)
