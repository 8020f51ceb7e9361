"""Which other sampling settings an engine's tokens look drawn under, where the law breaks.

It judges nothing. Beside each setting's likelihood stands the one that it would have if it were
what the engine was sent: a law that is wrong for another reason falls short of that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from specverify.audit.tally import Tally
from specverify.warping import SamplingParams, warp_probs

__all__ = ["count_settings", "likely_setting", "other_settings"]

_KEY = "sent-settings"
_NANO = 1e9
_TEMPERATURES = (0.5, 0.7, 0.8, 0.9, 1.1, 1.25, 1.5, 2.0)
_TOP_K = (1, 2, 3, 5, 10, 20)
_TOP_P = (0.5, 0.8, 0.95)
_MIX = 0.99  # the rest goes on what was told, so that no single token excludes a setting
_LEAST = 1e-6
_MOST_ENTRIES = 1 << 20
_NATS = 15.0
"""Least advantage over what was told, far beyond what the choice among settings brings."""
_OFF = 0.2
"""Part of its expected advantage by which a setting that is named may miss it, chance apart: what
was sent may lie between two of those that are tried."""
_DEVIATIONS = 3.0

Floats = NDArray[np.float64]


def other_settings(told: SamplingParams) -> list[tuple[str, SamplingParams]]:
    """Settings that may have been sent in place of those that were told, each with its text."""
    now = told.temperature
    tried = {round(factor * now, 6) for factor in _TEMPERATURES} | {1.0}
    found = [
        (f"temperature {value:.3g} in place of {now:.3g}", replace(told, temperature=value))
        for value in sorted(tried - {now})
    ]
    if not told.is_plain:
        found.append(("no settings at all", SamplingParams()))
    for name, values in (("top_k", _TOP_K), ("top_p", _TOP_P)):
        now, label = getattr(told, name), name.replace("_", "-")
        place = "none" if now is None else f"{now:g}"
        found += [
            (f"{label} {value or 'none'} in place of {place}", replace(told, **{name: value}))
            for value in (*values, None)
            if value != now
        ]
    return found


def count_settings(
    tally: Tally,
    tokens: NDArray[np.int64],
    target: Floats,
    told: SamplingParams,
    plain: Callable[[], Floats],
) -> None:
    """Add each setting's advantage in likelihood.

    Where that takes another look at the model, it is taken for the first batch of a shard alone.

    Args:
        tally: Where to; in whole billionths of a nat.
        tokens: Completions, shape ``(n, length)``, padded with -1.
        target: Their laws under the settings that were told, shape ``(n, length, vocab)``.
        told: Those settings.
        plain: Gives their laws at temperature 1 without filters, same shape.
    """
    seen = tally.get(_KEY) is not None and not told.is_plain
    if seen or told.temperature == 0 or target.size > _MOST_ENTRIES:
        return
    drawn = tokens >= 0
    rows = target[drawn]
    laws = rows if told.is_plain else plain()[drawn]
    ids = tokens[drawn][:, None]
    others = other_settings(told)
    table = tally.table(_KEY, (len(others), 3))
    for which, (_, setting) in enumerate(others):
        other = warp_probs(laws, setting)
        gain = np.log((1 - _MIX) + _MIX * other / np.maximum(rows, _LEAST))
        mean = (other * gain).sum(axis=1, keepdims=True)
        variance = (other * (gain - mean) ** 2).sum()
        sums = np.take_along_axis(gain, ids, axis=1).sum(), mean.sum(), variance
        table[which] += np.rint(np.array(sums) * _NANO).astype(np.int64)


def likely_setting(tally: Tally, told: SamplingParams) -> str | None:
    """The setting that the tokens look drawn under, if one explains them and what was told not."""
    table = tally.get(_KEY)
    if table is None:
        return None
    gains, expected, variances = (table / _NANO).T
    best = int(np.argmax(gains))
    granted = _OFF * expected[best] + _DEVIATIONS * np.sqrt(variances[best])
    if gains[best] < _NATS or abs(gains[best] - expected[best]) > granted:
        return None
    return other_settings(told)[best][0]
