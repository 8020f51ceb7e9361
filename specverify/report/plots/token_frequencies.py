"""Observed over expected frequency of every token, with bands that hold together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from specverify.report.plots.common import dots, legend_below, reference_line
from specverify.report.plots.intervals import simultaneous
from specverify.report.plots.style import canvas, styled

__all__ = ["draw"]

_SHOWN = ("reference", "resample_from_target")


@styled
def draw(study: Mapping[str, Any]) -> Figure:
    """Deviation of the first token's frequencies from the target's law.

    Args:
        study: Content of the study ``sampled_blocks``.
    """
    expected = np.asarray(study["parameters"]["first_token_probs"])
    order = np.argsort(-expected)
    figure, axes = canvas()
    reference_line(axes, 0.0, "the target's law")
    # A bug that is off by factors would squeeze the others into the line.
    rows = [row for row in study["rows"] if row["implementation"] in _SHOWN]
    for index, row in enumerate(rows):
        counts = np.asarray(row["first_tokens"])[order]
        share, low, high = simultaneous(counts, counts.sum(), len(counts))
        ratio = [value / expected[order] - 1 for value in (share, low, high)]
        places = np.arange(len(order)) + 0.26 * (index - (len(rows) - 1) / 2)
        label = row["implementation"]
        dots(axes, places, ratio[0], (ratio[1], ratio[2]), index=index, label=label)
    axes.set_xticks(range(len(order)), labels=[f"{value:.1%}" for value in expected[order]])
    axes.tick_params(axis="x", labelsize=8)
    axes.set(
        xlabel="token, by its probability under the target",
        ylabel="observed over expected frequency, less 1",
    )
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.grid(axis="x", visible=False)
    legend_below(figure, axes, columns=3)
    return figure
