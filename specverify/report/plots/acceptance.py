"""Acceptance at each position given that all before were accepted: counted, against 1 - TV."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from specverify.report.plots.common import dots, integer_ticks, legend_below
from specverify.report.plots.intervals import simultaneous
from specverify.report.plots.style import MUTED, canvas, styled

__all__ = ["draw"]


@styled
def draw(study: Mapping[str, Any]) -> Figure:
    """Conditional acceptance by position with simultaneous intervals.

    Args:
        study: Content of the study ``sampled_blocks``.
    """
    exact = np.asarray(study["parameters"]["acceptance"])
    positions = np.arange(1, len(exact) + 1)
    figure, axes = canvas()
    axes.hlines(
        exact,
        positions - 0.4,
        positions + 0.4,
        color=MUTED,
        linewidth=1.4,
        label="exact: 1 - TV(target, draft)",
    )
    rows = study["rows"]
    for index, row in enumerate(rows):
        share, low, high = simultaneous(row["accepted"], row["tested"], len(exact))
        places = positions + 0.2 * (index - (len(rows) - 1) / 2)
        dots(axes, places, share, (low, high), index=index, label=row["implementation"])
    axes.set(
        xlabel="position in the block (draft token)",
        ylabel="accepted of those tested (probability)",
        ylim=(0, 1),
    )
    axes.grid(axis="x", visible=False)
    integer_ticks(axes)
    legend_below(figure, axes)
    return figure
