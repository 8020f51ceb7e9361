"""Speedup over gamma: theory's lines, simulated dots with intervals, and a measured pair."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from specverify.report.plots.common import column, dots, integer_ticks, legend_below, reference_line
from specverify.report.plots.style import canvas, series, styled
from specverify.theory.speedup import speculative_speedup

__all__ = ["draw"]


@styled
def draw(study: Mapping[str, Any], *, c: float = 0.1) -> Figure:
    """Speedup over the draft length at one draft cost, a series for each acceptance rate.

    Args:
        study: Content of the study ``speedup_vs_theory``.
        c: The draft cost to show; the nearest in the study is taken.
    """
    cost = min({row["c"] for row in study["rows"]}, key=lambda value: abs(value - c))
    rows = [row for row in study["rows"] if row["c"] == cost]
    figure, axes = canvas(height=4.0)
    for index, alpha in enumerate(sorted({row["alpha"] for row in rows}, reverse=True)):
        found = [row for row in rows if row["alpha"] == alpha]
        gammas = np.arange(1, max(row["gamma"] for row in found) + 1)
        look = series(index)
        theory = speculative_speedup(alpha, gammas, cost)
        axes.plot(gammas, theory, color=look.color, linestyle=look.dashes)
        bounds = column(found, "speedup_low"), column(found, "speedup_high")
        places, middle = column(found, "gamma"), column(found, "speedup")
        dots(axes, places, middle, bounds, index=index, label=f"α = {alpha:g}")
    reference_line(axes, 1.0, "plain decoding")
    axes.set(
        xlabel=f"draft length γ (tokens), at a draft cost of {cost:g} target steps",
        ylabel="speedup (plain time over speculative time)",
    )
    integer_ticks(axes)
    legend_below(figure, axes, columns=3)
    return figure
