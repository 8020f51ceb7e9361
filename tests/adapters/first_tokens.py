"""Compares the first token that an engine emits with a law."""

from __future__ import annotations

import numpy as np
from scipy.stats import chi2

from specverify.audit.forms import Engine, TargetLaw
from specverify.warping import SamplingParams

PROMPT = [3, 1, 4, 1, 5]
PLAIN = SamplingParams()


def first_token_law(law: TargetLaw, sampling: SamplingParams = PLAIN) -> np.ndarray:
    """Law of the token after the prompt, shape ``(vocab,)``."""
    return law.probs(PROMPT, np.zeros((1, 1), np.int64), sampling)[0, 0]


def first_token_p_value(
    engine: Engine, law: np.ndarray, n: int, *, sampling: SamplingParams = PLAIN
) -> float:
    """Chi-square of ``n`` first tokens, ids of small expectation in one cell."""
    drawn = engine.sample(PROMPT, n, 1, sampling, seed=7).tokens[:, 0]
    counts = np.bincount(drawn, minlength=len(law))
    rare = n * law < 10
    observed = np.append(counts[~rare], counts[rare].sum())
    expected = n * np.append(law[~rare], law[rare].sum())
    there = expected > 0
    if observed[~there].any():
        return 0.0
    statistic = ((observed - expected)[there] ** 2 / expected[there]).sum()
    return float(chi2.sf(statistic, there.sum() - 1))
