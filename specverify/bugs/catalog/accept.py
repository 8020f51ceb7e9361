"""Drafts are kept by the wrong test."""

from __future__ import annotations

import numpy as np

from specverify._arrays import FloatArray
from specverify.bugs.base import Bug, Kind, Stage
from specverify.bugs.staged import Coupling, StagedVerifier
from specverify.distributions import acceptance_probabilities, one_hot

_TARGET_ALONE = StagedVerifier(accept=lambda target, _draft: np.minimum(target, 1))

ACCEPT_BELOW_TARGET = Bug(
    name="accept_below_target",
    kind=Kind.VERIFY,
    stage=Stage.ACCEPT,
    mathematics="accept if u < p(x) in place of u < p(x)/q(x)",
    expected_check="first marginal",
    callable=_TARGET_ALONE,
    row_law=_TARGET_ALONE.row_law,
    blind="one-hot q",
    scene="P1",
)

_ALL_OR_NOTHING = StagedVerifier(
    accept=lambda target, draft: (target >= draft).astype(target.dtype)
)

REJECT_WHERE_BELOW = Bug(
    name="reject_where_below",
    kind=Kind.VERIFY,
    stage=Stage.ACCEPT,
    mathematics="accept 1[p >= q] in place of min(1, p/q)",
    expected_check="first marginal",
    callable=_ALL_OR_NOTHING,
    row_law=_ALL_OR_NOTHING.row_law,
    blind="p = q",
    scene="P1",
)


def _is_argmax(target: FloatArray, _draft: FloatArray) -> FloatArray:
    return np.asarray(one_hot(target.argmax(axis=-1), target.shape[-1]))


_GREEDY = StagedVerifier(accept=_is_argmax)

GREEDY_ACCEPT = Bug(
    name="greedy_accept",
    kind=Kind.VERIFY,
    stage=Stage.ACCEPT,
    mathematics="accept 1[x = argmax p] in place of min(1, p/q)",
    expected_check="first marginal",
    callable=_GREEDY,
    row_law=_GREEDY.row_law,
    blind="one-hot p",
    scene="P2",
)

_SWAPPED = StagedVerifier(accept=lambda target, draft: acceptance_probabilities(draft, target))

RATIO_SWAPPED = Bug(
    name="ratio_swapped",
    kind=Kind.VERIFY,
    stage=Stage.ACCEPT,
    mathematics="accept min(1, q/p) in place of min(1, p/q)",
    expected_check="first marginal",
    callable=_SWAPPED,
    row_law=_SWAPPED.row_law,
    blind="p = q",
    scene="P1",
)


def _first_always(target: FloatArray, draft: FloatArray) -> FloatArray:
    accept = acceptance_probabilities(target, draft)
    return np.concatenate([np.ones_like(accept[..., :1, :]), accept[..., 1:, :]], axis=-2)


FIRST_UNVERIFIED = Bug(
    name="first_unverified",
    kind=Kind.VERIFY,
    stage=Stage.ACCEPT,
    mathematics="verification starts at the second draft: the first token is emitted from q",
    expected_check="first marginal",
    reference="lattice#243",
    callable=StagedVerifier(accept=_first_always),
    scene="P1",
)

SHARED_UNIFORM = Bug(
    name="shared_uniform",
    kind=Kind.VERIFY,
    stage=Stage.RANDOMNESS,
    mathematics="one u for the accept tests of all positions of a block",
    expected_check="second marginal, acceptance histogram",
    reference="flashinfer#424",
    callable=StagedVerifier(coupling=Coupling.BLOCK),
    blind="gamma 1; first marginal",
    scene="P1",
)
