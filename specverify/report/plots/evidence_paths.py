"""The e-process along an audit: it climbs on bugs and stays low on the reference."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from matplotlib.figure import Figure

from specverify.report.plots.common import legend_below, reference_line
from specverify.report.plots.style import canvas, series, styled

__all__ = ["draw"]


@styled
def draw(study: Mapping[str, Any]) -> Figure:
    """Evidence against the law after so many tokens, one line a run.

    Args:
        study: Content of the study ``evidence_paths``.
    """
    settings = study["parameters"]
    bar = -math.log10(settings["level"])
    figure, axes = canvas(height=3.9)
    reference_line(axes, bar, f"alarm at level {settings['level']:g}")
    for index, row in enumerate(study["rows"]):
        look = series(index)
        for number, path in enumerate(row["log10_e"]):
            distance = f" (TV {row['tv']:.2f})" if row["tv"] else ""
            axes.plot(
                settings["tokens"],
                path,
                color=look.color,
                linestyle=look.dashes,
                linewidth=1.2,
                label=None if number else f"{row['implementation']}{distance}",
            )
    axes.set(
        xscale="log",
        xlabel="observed (tokens)",
        ylabel="evidence against the law (log10 e-value)",
        ylim=(-2, 3 * bar),
        xlim=(1, settings["tokens"][-1]),
    )
    legend_below(figure, axes)
    return figure
