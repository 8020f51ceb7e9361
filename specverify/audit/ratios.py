"""Likelihood ratios of known bugs on an engine's tokens, in integers that a tally can add."""

from __future__ import annotations

from typing import cast

import numpy as np
from numpy.typing import NDArray

from specverify.audit.tally import Tally

__all__ = ["DILUTIONS", "KNOWN", "count_ratios", "ratio_log_e"]

KNOWN = (
    "resample_from_target",
    "abs_residual",
    "accept_below_target",
    "ratio_swapped",
    "temperature_on_target",
    "temperature_on_draft",
    "argmax_draft",
)
"""Bugs of the zoo whose law at a drafted position follows from the two rows there."""

DILUTIONS = (0.99, 0.3)
"""Parts of the tokens that a bug is bet to draw: it acts at drafted positions only."""

_NANO = 1e9
_MOST_ENTRIES = 1 << 21
"""Rows of a batch beyond which the laws of the bugs would cost as much as the engine."""


def count_ratios(
    tally: Tally, tokens: NDArray[np.int64], target: NDArray[np.float64], draft: NDArray[np.float64]
) -> None:
    """Add the logarithm of each bug's law over the target's, at every token.

    Args:
        tally: Where to; in whole billionths of a nat, rounded down, so that the bets stay fair.
        tokens: Completions, shape ``(n, length)``, padded with -1.
        target: Target's conditional laws, shape ``(n, length, vocab)``.
        draft: The draft's, same shape.
    """
    if target.size > _MOST_ENTRIES:
        return
    # The zoo is loaded where there is something to bet on.
    from specverify.bugs import ZOO
    from specverify.bugs.staged import StagedVerifier

    ids = np.maximum(tokens, 0)[..., None]
    mass = np.take_along_axis(target, ids, axis=-1)[..., 0]
    drawn = (tokens >= 0) & (mass > 0)
    table = tally.table("ratios", (len(KNOWN), len(DILUTIONS)))
    for which, name in enumerate(KNOWN):
        bug = ZOO[name]
        row_law = bug.row_law or cast(StagedVerifier, bug.callable).row_law
        law = row_law(target, draft)
        ratios = np.take_along_axis(law, ids, axis=-1)[..., 0][drawn] / mass[drawn]
        for column, mix in enumerate(DILUTIONS):
            gain = np.log((1 - mix) + mix * ratios).sum()
            table[which, column] += int(np.floor(gain * _NANO))


def ratio_log_e(tally: Tally) -> dict[str, float]:
    """Logarithm of the e-value of each bug; empty where no ratios were counted.

    Each is a product of factors with mean one given everything before the token, averaged over the
    dilutions, hence an e-process.
    """
    table = tally.get("ratios")
    if table is None:
        return {}
    log_e = np.logaddexp.reduce(table / _NANO, axis=1) - np.log(len(DILUTIONS))
    return dict(zip(KNOWN, log_e.tolist(), strict=True))
