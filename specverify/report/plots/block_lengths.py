"""How many tokens a block emits: counted, against the exact law."""

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
    """Histogram of the emitted length with the exact pmf as bars.

    Args:
        study: Content of the study ``sampled_blocks``.
    """
    exact = np.asarray(study["parameters"]["length_pmf"])
    lengths = np.arange(1, len(exact) + 1)
    figure, axes = canvas()
    axes.bar(
        lengths,
        exact,
        width=0.8,
        facecolor="none",
        edgecolor=MUTED,
        linewidth=1.4,
        label="exact law",
    )
    rows = study["rows"]
    for index, row in enumerate(rows):
        counts = np.asarray(row["lengths"])
        share, low, high = simultaneous(counts, counts.sum(), len(counts))
        places = lengths + 0.2 * (index - (len(rows) - 1) / 2)
        dots(axes, places, share, (low, high), index=index, label=row["implementation"])
    axes.set(xlabel="length of the block (tokens)", ylabel="share of the blocks (probability)")
    axes.grid(axis="x", visible=False)
    integer_ticks(axes)
    legend_below(figure, axes)
    return figure
