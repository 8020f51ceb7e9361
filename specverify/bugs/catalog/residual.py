"""The token drawn after a rejection comes from the wrong law."""

from __future__ import annotations

import numpy as np

from specverify._arrays import FloatArray, IntArray
from specverify.bugs.base import Bug, Kind, Stage
from specverify.bugs.staged import Coupling, StagedVerifier, normalised
from specverify.distributions import acceptance_probabilities, residual_distribution

_RESAMPLE = StagedVerifier(residual=lambda target, _draft, _tokens: target)

RESAMPLE_FROM_TARGET = Bug(
    name="resample_from_target",
    kind=Kind.VERIFY,
    stage=Stage.RESIDUAL,
    mathematics="correction ~ p in place of (p - q)+ normalised",
    expected_check="first marginal",
    callable=_RESAMPLE,
    row_law=_RESAMPLE.row_law,
    blind="p = q",
    scene="P1",
)

_ABSOLUTE = StagedVerifier(
    residual=lambda target, draft, _tokens: normalised(np.abs(target - draft))
)

ABS_RESIDUAL = Bug(
    name="abs_residual",
    kind=Kind.VERIFY,
    stage=Stage.RESIDUAL,
    mathematics="correction ~ |p - q| normalised in place of (p - q)+ normalised",
    expected_check="first marginal",
    callable=_ABSOLUTE,
    row_law=_ABSOLUTE.row_law,
    blind="p = q",
    scene="P1",
)


def _softmax_residual(target: FloatArray, draft: FloatArray, _tokens: IntArray) -> FloatArray:
    return normalised(np.exp(np.clip(target - draft, 0, None)))


_SOFTMAX = StagedVerifier(residual=_softmax_residual)

RESIDUAL_SOFTMAX = Bug(
    name="residual_softmax",
    kind=Kind.VERIFY,
    stage=Stage.RESIDUAL,
    mathematics="correction ~ softmax((p - q)+) in place of (p - q)+ normalised",
    expected_check="first marginal",
    reference="transformers#28508",
    callable=_SOFTMAX,
    row_law=_SOFTMAX.row_law,
    blind="p = q; acceptance is unchanged",
    scene="P1",
)


def _target_without(target: FloatArray, _draft: FloatArray, tokens: IntArray) -> FloatArray:
    others = np.arange(target.shape[-1]) != tokens[..., None]
    return normalised(np.where(others, target, 0))


def _zeroed_row_law(target: FloatArray, draft: FloatArray) -> FloatArray:
    rejected = draft * (1 - acceptance_probabilities(target, draft))
    others = 1 - target
    share = np.divide(rejected, others, out=np.zeros_like(rejected), where=others > 0)
    corrected = target * (share.sum(axis=-1, keepdims=True) - share)
    law: FloatArray = draft - rejected + corrected
    return law


REJECTED_ZEROED = Bug(
    name="rejected_zeroed",
    kind=Kind.VERIFY,
    stage=Stage.RESIDUAL,
    mathematics="correction ~ p with the rejected id set to 0, although the ratio is p/q",
    expected_check="first marginal",
    reference="EAGLE#20",
    callable=StagedVerifier(residual=_target_without),
    row_law=_zeroed_row_law,
    blind="two tokens",
    scene="P1",
)

_NEXT_ROW = StagedVerifier(
    residual_view=lambda rows: rows._replace(
        target=np.concatenate([rows.target[..., 1:, :], rows.bonus[..., None, :]], axis=-2)
    )
)

RESIDUAL_NEXT_ROW = Bug(
    name="residual_next_row",
    kind=Kind.VERIFY,
    stage=Stage.ROWS,
    mathematics="correction ~ (p of the next position - q)+ normalised",
    expected_check="transitions",
    callable=_NEXT_ROW,
    blind="the same target row at every position",
    scene="M3",
)


def _reused_row_law(target: FloatArray, draft: FloatArray) -> FloatArray:
    """The correction is the token whose residual interval meets (p_x/q_x, 1]."""
    accept = acceptance_probabilities(target, draft)
    residual = residual_distribution(target, draft)
    edges = np.cumsum(residual, axis=-1)
    law = draft * accept
    for row in np.ndindex(law.shape[:-1]):
        # What all drafts send below t grows as the integral of their mass with p_x/q_x below it.
        sent = _mass_beyond(draft[row], accept[row], np.append(0.0, edges[row]))
        law[row] += np.where(residual[row] > 0, np.maximum(np.diff(sent), 0), 0)
    return np.asarray(law)


def _mass_beyond(mass: FloatArray, cuts: FloatArray, points: FloatArray) -> FloatArray:
    """``sum_x mass_x (t - cut_x)+`` at every point ``t``, in one sort."""
    order = np.argsort(cuts)
    heavier = np.append(0.0, np.cumsum(mass[order]))
    moments = np.append(0.0, np.cumsum((mass * cuts)[order]))
    behind = np.searchsorted(cuts[order], points)
    beyond: FloatArray = points * heavier[behind] - moments[behind]
    return beyond


REUSED_UNIFORM = Bug(
    name="reused_uniform",
    kind=Kind.VERIFY,
    stage=Stage.RANDOMNESS,
    mathematics="the u > p/q that rejected also inverts the residual's distribution function",
    expected_check="first marginal",
    callable=StagedVerifier(coupling=Coupling.RESIDUAL),
    row_law=_reused_row_law,
    blind="a residual of one token (P1)",
    scene="P2",
)
