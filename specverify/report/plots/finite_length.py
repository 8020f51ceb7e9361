"""The bias of tokens over rounds in runs that stop at N tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from specverify.report.plots.common import column, dots, reference_line
from specverify.report.plots.style import canvas, series, styled

__all__ = ["draw"]


@styled
def draw(study: Mapping[str, Any]) -> Figure:
    """Deviation from an endless run by counting rule, a panel for each acceptance rate.

    Args:
        study: Content of the study ``finite_length_bias``.
    """
    alphas = sorted({row["alpha"] for row in study["rows"]})
    figure, panels = canvas(rows=len(alphas), height=1.4 + 1.9 * len(alphas))
    panels = np.atleast_1d(panels)
    for axes, alpha in zip(panels, alphas, strict=True):
        _panel(axes, [row for row in study["rows"] if row["alpha"] == alpha])
        axes.set_title(f"α = {alpha:g}", loc="left")
    panels[-1].set_xlabel("length N at which a run stops (tokens)")
    figure.supylabel("tokens per pass over an endless run's, less 1", fontsize=9.5)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2)
    return figure


def _panel(axes: Any, rows: list[Mapping[str, Any]]) -> None:
    lengths, endless = column(rows, "tokens"), column(rows, "endless")
    reference_line(axes, 0.0, "an endless run")
    lines = (("whole_bias", 0, "exact, whole last round"), ("cut_bias", 1, "exact, cut at N"))
    for key, index, label in lines:
        look = series(index)
        axes.plot(lengths, column(rows, key), color=look.color, linestyle=look.dashes, label=label)
    for key, index, label in (
        ("whole", 0, "mean of ratios"),
        ("ratio_of_sums", 2, "ratio of sums"),
    ):
        middle, low, high = (
            column(rows, f"{key}{end}") / endless - 1 for end in ("", "_low", "_high")
        )
        places = lengths * (1.04 if index else 1.0)
        dots(axes, places, middle, (low, high), index=index, label=f"simulated, {label}")
    axes.set_xscale("log")
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
