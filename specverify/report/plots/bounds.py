"""How sure audits are: each one's widest interval, and the distance that it would have found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure

from specverify.report.plots.common import dots
from specverify.report.plots.style import MUTED, canvas, styled
from specverify.results import CheckResult

__all__ = ["MOST", "Bound", "draw"]

MOST = 30


class Bound(NamedTuple):
    """An audit in one line: interval of a check on the law, and the detectable distance."""

    label: str
    check: CheckResult


@styled
def draw(bounds: Sequence[Bound]) -> Figure:
    """One line an audit, those that leave most open first; at most 30 are drawn.

    Args:
        bounds: At least one; every check has an interval of its total variation.
    """
    shown = sorted(bounds, key=lambda one: -(one.check.tv.high or 0) if one.check.tv else 0)[:MOST]
    places = np.arange(len(shown), 0, -1)
    figure, axes = canvas(height=1.5 + 0.22 * len(shown))
    for place, (_, check) in zip(places, shown, strict=True):
        tv = check.tv
        if tv is None:
            continue
        low, high = tv.low or 0.0, tv.high or 0.0
        middle = (low + high) / 2 if tv.estimate is None else tv.estimate
        mark = "none" if tv.estimate is None else "o"
        dots(axes, [place], [middle], ([low], [high]), horizontal=True, fmt=mark)
        if check.detectable_tv is not None:
            ends = [place - 0.35, place + 0.35]
            axes.plot([check.detectable_tv] * 2, ends, color=MUTED, linewidth=2)
    axes.set_yticks(places, labels=[one.label for one in shown])
    axes.tick_params(axis="y", labelsize=8, length=0)
    axes.set(
        xlim=(0, None),
        ylim=(0.3, len(shown) + 0.7),
        xlabel="total variation from the target's law (bar: detectable)",
    )
    axes.grid(axis="y", visible=False)
    return figure
