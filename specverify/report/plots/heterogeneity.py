"""What one acceptance rate hides: tokens per pass against the formula of a constant alpha."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from specverify.report.plots.common import column, dots, legend_below, reference_line
from specverify.report.plots.style import canvas, series, styled

__all__ = ["draw"]

_NAMES = {"beta": "an α a round", "beta-token": "an α a token", "markov": "stretches of text"}


@styled
def draw(study: Mapping[str, Any]) -> Figure:
    """Deviation from the formula over the spread of alpha, at the study's longest draft.

    Args:
        study: Content of the study ``heterogeneity``.
    """
    gamma = max(row["gamma"] for row in study["rows"])
    rows = [row for row in study["rows"] if row["gamma"] == gamma]
    figure, axes = canvas(height=4.0)
    reference_line(axes, 0.0, "formula of a constant α")
    for index, process in enumerate(dict.fromkeys(row["process"] for row in rows)):
        found = [row for row in rows if row["process"] == process]
        formula, spread = column(found, "iid_tokens_per_pass"), column(found, "sd")
        look = series(index)
        predicted = column(found, "predicted_tokens_per_pass") / formula - 1
        axes.plot(spread, predicted, color=look.color, linestyle=look.dashes)
        middle, low, high = (
            column(found, f"tokens_per_pass{end}") / formula - 1 for end in ("", "_low", "_high")
        )
        label = _NAMES.get(process, process)
        dots(axes, spread, middle, (low, high), index=index, label=label)
    axes.set(
        xlabel=f"standard deviation of α (probability), at γ = {gamma} draft tokens",
        ylabel="tokens per pass over the formula, less 1",
    )
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    legend_below(figure, axes)
    return figure
