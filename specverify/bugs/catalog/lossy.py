"""Lossy by declaration: an audit reports how much, and holds them to what they declare."""

from __future__ import annotations

import numpy as np

from specverify._arrays import FloatArray
from specverify.bugs.base import Bug, Kind, Role, Stage
from specverify.bugs.staged import StagedVerifier
from specverify.distributions import acceptance_probabilities

_THRESHOLD = 0.3
_SCALE = 0.6
_LENIENCE = 0.8
_WEIGHT = 0.9


def _typical(target: FloatArray, _draft: FloatArray) -> FloatArray:
    logs = np.log(np.where(target > 0, target, 1.0))
    entropy = -(target * logs).sum(axis=-1, keepdims=True)
    cut = np.minimum(_THRESHOLD, _SCALE * np.exp(-entropy))
    return np.asarray(target > cut, dtype=np.float64)


_TYPICAL = StagedVerifier(accept=_typical, residual=lambda target, _draft, _tokens: target)

TYPICAL_ACCEPTANCE = Bug(
    name="typical_acceptance",
    kind=Kind.VERIFY,
    stage=Stage.ACCEPT,
    mathematics="accept if p(x) > min(0.3, 0.6 exp(-H(p))), correction ~ p",
    expected_check="distance within the declared one",
    reference="Cai et al. (2024), arXiv:2401.10774; vllm#5131",
    role=Role.LOSSY,
    callable=_TYPICAL,
    row_law=_TYPICAL.row_law,
    scene="P1",
)

_LENIENT = StagedVerifier(
    accept=lambda target, draft: acceptance_probabilities(target, _LENIENCE * draft)
)

LENIENCE = Bug(
    name="lenience",
    kind=Kind.VERIFY,
    stage=Stage.ACCEPT,
    mathematics="accept min(1, p/(l q)) with l = 0.8",
    expected_check="distance within the declared one",
    reference="Leviathan et al. (2023), arXiv:2211.17192, appendix A.5",
    role=Role.LOSSY,
    callable=_LENIENT,
    row_law=_LENIENT.row_law,
    scene="P1",
)

_ENSEMBLE = StagedVerifier(
    view=lambda rows: rows._replace(target=_WEIGHT * rows.target + (1 - _WEIGHT) * rows.draft)
)

ENSEMBLE_WEIGHT = Bug(
    name="ensemble_weight",
    kind=Kind.VERIFY,
    stage=Stage.PARAMETERS,
    mathematics="drafts verified against w p + (1 - w) q with w = 0.9",
    expected_check="distance within the declared one",
    reference="transformers, assistant_ensemble_weight",
    role=Role.LOSSY,
    callable=_ENSEMBLE,
    row_law=_ENSEMBLE.row_law,
    scene="P1",
)
