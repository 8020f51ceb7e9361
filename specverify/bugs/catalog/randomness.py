"""Draws that are not the ones they should be."""

from __future__ import annotations

from specverify.bugs.base import Bug, Effect, Kind, Stage
from specverify.bugs.draws import Draws
from specverify.bugs.staged import Block, Rows, StagedVerifier


class _TwoRanks(StagedVerifier):
    """Rank 0 keeps the drafts, rank 1 draws the last token; each made its own accept tests."""

    def block(self, rows: Rows, tokens: list[int], draws: Draws) -> Block:
        kept = self.accepted(rows, tokens, draws)
        believed = self.accepted(rows, tokens, draws)
        return self.emit(tokens, kept, draws.token(self.final_law(rows, tokens, believed)))


RANKS_DISAGREE = Bug(
    name="ranks_disagree",
    kind=Kind.VERIFY,
    stage=Stage.RANDOMNESS,
    mathematics="two ranks draw their own accept uniforms and each uses its own count",
    expected_check="agreement of two ranks, first marginal",
    reference="vllm#17498",
    callable=_TwoRanks(),
    blind="p = q",
    scene="P1",
)


class _RawMask(StagedVerifier):
    """Reports how many drafts pass their own test, not how long the accepted prefix is."""

    def block(self, rows: Rows, tokens: list[int], draws: Draws) -> Block:
        accept = self.accept(rows.target, rows.draft)
        mask = [draws.uniform() < float(accept[i, token]) for i, token in enumerate(tokens)]
        prefix = (*mask, False).index(False)
        final = draws.token(self.final_law(rows, tokens, prefix))
        return [*tokens[:prefix], final], sum(mask)


RAW_MASK_COUNTED = Bug(
    name="raw_mask_counted",
    kind=Kind.VERIFY,
    stage=Stage.COUNTERS,
    mathematics="n_accepted = sum of the accept mask in place of its leading run",
    expected_check="acceptance histogram, emitted = n_accepted + 1",
    reference="vllm#2658, vllm#10604",
    effect=Effect.COUNTS,
    callable=_RawMask(),
    blind="the law; gamma 1",
    scene="P1",
)
