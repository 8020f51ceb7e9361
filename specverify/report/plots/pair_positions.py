"""Acceptance of a real pair at each position of the block, given that all before were accepted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from matplotlib.figure import Figure

from specverify.report.plots.common import column, dots, integer_ticks, legend_below
from specverify.report.plots.style import canvas, styled

__all__ = ["draw"]


@styled
def draw(study: Mapping[str, Any]) -> Figure:
    """Conditional acceptance by position, a series for each draft length.

    Args:
        study: Content of the study ``gpt_pair_positions``.
    """
    gammas = sorted({row["gamma"] for row in study["rows"]})
    figure, axes = canvas()
    for index, gamma in enumerate(gammas):
        rows = [row for row in study["rows"] if row["gamma"] == gamma]
        places = column(rows, "position") + 0.11 * (index - (len(gammas) - 1) / 2)
        bounds = column(rows, "alpha_low"), column(rows, "alpha_high")
        dots(axes, places, column(rows, "alpha"), bounds, index=index, label=f"γ = {gamma}")
    axes.set(
        xlabel="position in the block (draft token)",
        ylabel="accepted of those tested (probability)",
    )
    axes.grid(axis="x", visible=False)
    integer_ticks(axes)
    legend_below(figure, axes, columns=3)
    return figure
