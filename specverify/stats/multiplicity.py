"""Many looks, one false-alarm level: corrections of p-values and combination of e-values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from scipy.special import logsumexp

from specverify.errors import InvalidInputError
from specverify.stats._check import Floats

__all__ = ["average_log_e", "bonferroni", "combine_families", "holm"]


def bonferroni(p_values: Sequence[float] | Floats) -> Floats:
    """P-values times their number, at most 1: valid under any dependence.

    Args:
        p_values: Shape ``(tests,)``.

    Returns:
        Adjusted p-values, same shape.

    Raises:
        InvalidInputError: If one lies outside [0, 1].
    """
    values = _p_values(p_values)
    return np.minimum(values * len(values), 1.0)


def holm(p_values: Sequence[float] | Floats) -> Floats:
    """Holm's step-down adjustment: never weaker than Bonferroni's, valid under any dependence.

    Args:
        p_values: Shape ``(tests,)``.

    Returns:
        Adjusted p-values, same shape and order; reject those at or below the level.

    Raises:
        InvalidInputError: If one lies outside [0, 1].

    References:
        Holm (1979), Scandinavian Journal of Statistics 6(2), section 3.
    """
    values = _p_values(p_values)
    order = np.argsort(values, kind="stable")
    steps = values[order] * np.arange(len(values), 0, -1)
    adjusted = np.empty_like(values)
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return adjusted


def average_log_e(log_e: Sequence[float] | Floats) -> float:
    """Logarithm of the mean of e-values that watch the same data: an e-value again.

    Args:
        log_e: Logarithms of e-values, shape ``(bets,)``; ``inf`` (an impossible event) and
            ``-inf`` are allowed. Empty gives 0.

    References:
        Vovk and Wang (2021), arXiv:1912.06116, proposition 3.1: no admissible symmetric merging
        under arbitrary dependence but the weighted average.
    """
    values = np.asarray(log_e, dtype=np.float64)
    if len(values) == 0:
        return 0.0
    # logsumexp of an array that is all -inf is -inf, with one inf is inf: both as they should.
    return float(logsumexp(values) - np.log(len(values)))


def combine_families(families: Mapping[str, Sequence[float]]) -> tuple[float, dict[str, float]]:
    """One e-value a family (the average of its bets), and Bonferroni across families.

    Args:
        families: Logarithms of the e-values, by family.

    Returns:
        ``(log_e, by_family)``: the largest family's logarithm less the logarithm of the number of
        families, to be compared with ``log(1 / level)``, and each family's own average.
    """
    averages = {name: average_log_e(values) for name, values in families.items()}
    if not averages:
        return 0.0, {}
    return max(averages.values()) - float(np.log(len(averages))), averages


def _p_values(p_values: Sequence[float] | Floats) -> Floats:
    values = np.asarray(p_values, dtype=np.float64)
    if values.ndim != 1 or not np.all((values >= 0) & (values <= 1)):
        raise InvalidInputError("p_values", f"must be numbers in [0, 1] on one axis, got {values}")
    return values
