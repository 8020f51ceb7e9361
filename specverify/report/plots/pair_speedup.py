"""Speedup of a real pair on a real machine: measured, and predicted from its measured costs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from matplotlib.figure import Figure

from specverify.report.plots.common import (
    column,
    dots,
    integer_ticks,
    legend_below,
    prediction,
    reference_line,
)
from specverify.report.plots.style import canvas, styled

__all__ = ["draw"]


@styled
def draw(study: Mapping[str, Any]) -> Figure:
    """Speedup over the draft length.

    Args:
        study: Content of the study ``gpt_pair_times``.
    """
    rows = sorted(study["rows"], key=lambda row: row["gamma"])
    gammas = column(rows, "gamma")
    figure, axes = canvas()
    reference_line(axes, 1.0, "plain decoding")
    prediction(axes, gammas, rows, "predicted_speedup")
    bounds = column(rows, "speedup_low"), column(rows, "speedup_high")
    dots(axes, gammas, column(rows, "speedup"), bounds, index=1, label="measured")
    axes.set(
        xlabel="draft length γ (tokens)",
        ylabel="speedup (plain time over speculative time)",
    )
    integer_ticks(axes)
    legend_below(figure, axes, columns=3)
    return figure
