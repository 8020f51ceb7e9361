"""Controls: the standard rule with its draws made in other ways. None is biased."""

from __future__ import annotations

import numpy as np

from specverify._arrays import FloatArray
from specverify.bugs.base import Bug, Effect, Kind, Role, Stage
from specverify.bugs.draws import Draws, invert
from specverify.bugs.staged import Block, Rows, StagedVerifier


class _ReversedInversion(StagedVerifier):
    """Inverts the last token's distribution function from the last id down."""

    def block(self, rows: Rows, tokens: list[int], draws: Draws) -> Block:
        kept = self.accepted(rows, tokens, draws)
        law = self.final_law(rows, tokens, kept)
        place = invert(draws.uniform(), law[::-1])
        return [*tokens[:kept], law.shape[-1] - 1 - place], kept


REVERSED_INVERSION = Bug(
    name="reversed_inversion",
    kind=Kind.VERIFY,
    stage=Stage.RANDOMNESS,
    mathematics="the distribution function is summed from the last id down",
    expected_check="none",
    effect=Effect.NONE,
    role=Role.CONTROL,
    callable=_ReversedInversion(),
    scene="P1",
)


class _RescaledUniform(StagedVerifier):
    """Uses the rejecting uniform again, but stretched from (a, 1) to (0, 1) first."""

    def block(self, rows: Rows, tokens: list[int], draws: Draws) -> Block:
        accept = self.accept(rows.target, rows.draft)
        for i, token in enumerate(tokens):
            uniform = draws.uniform()
            cut = float(accept[i, token])
            if not uniform < cut:
                law = self.final_law(rows, tokens, i)
                # Inverting at (u - a)/(1 - a) is inverting at u with stretched steps.
                stretched = np.concatenate([[cut], (1 - cut) * law])
                return [*tokens[:i], invert(uniform, stretched) - 1], i
        return [*tokens, draws.token(rows.bonus)], len(tokens)


RESCALED_UNIFORM = Bug(
    name="rescaled_uniform",
    kind=Kind.VERIFY,
    stage=Stage.RANDOMNESS,
    mathematics="the rejecting u inverts the residual at (u - a)/(1 - a), uniform again",
    expected_check="none",
    effect=Effect.NONE,
    role=Role.CONTROL,
    callable=_RescaledUniform(),
    scene="P2",
)


class _ExponentialRace(StagedVerifier):
    """Draws the last token as the argmax of law / exponential."""

    def block(self, rows: Rows, tokens: list[int], draws: Draws) -> Block:
        kept = self.accepted(rows, tokens, draws)
        return [*tokens[:kept], draws.race(self.final_law(rows, tokens, kept))], kept


EXPONENTIAL_RACE = Bug(
    name="exponential_race",
    kind=Kind.VERIFY,
    stage=Stage.RANDOMNESS,
    mathematics="last token = argmax law / E with exponentials E in place of an inversion",
    expected_check="none",
    effect=Effect.NONE,
    role=Role.CONTROL,
    callable=_ExponentialRace(),
    scene="P1",
)


class _ClosedTest(StagedVerifier):
    """Accepts where ``v <= p/q`` for ``v = 1 - u`` in (0, 1]."""

    def block(self, rows: Rows, tokens: list[int], draws: Draws) -> Block:
        accept = self.accept(rows.target, rows.draft)
        kept = 0
        while kept < len(tokens) and not draws.uniform() < 1 - float(accept[kept, tokens[kept]]):
            kept += 1
        return [*tokens[:kept], draws.token(self.final_law(rows, tokens, kept))], kept


CLOSED_ACCEPT_TEST = Bug(
    name="closed_accept_test",
    kind=Kind.VERIFY,
    stage=Stage.ACCEPT,
    mathematics="accept if u <= p/q with u in (0, 1] in place of u < p/q with u in [0, 1)",
    expected_check="none",
    effect=Effect.NONE,
    role=Role.CONTROL,
    callable=_ClosedTest(),
    scene="P1",
)


def _log_ratio(target: FloatArray, draft: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore", invalid="ignore"):
        difference = np.log(target) - np.log(draft)
    return np.exp(np.minimum(np.where(np.isnan(difference), 0.0, difference), 0.0))


LOG_RATIO = Bug(
    name="log_ratio",
    kind=Kind.VERIFY,
    stage=Stage.ACCEPT,
    mathematics="accept if log u < log p - log q",
    expected_check="none",
    effect=Effect.NONE,
    role=Role.CONTROL,
    callable=StagedVerifier(accept=_log_ratio),
    scene="P1",
)
