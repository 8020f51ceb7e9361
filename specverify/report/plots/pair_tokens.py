"""Tokens per pass of a real pair: measured, predicted from its known alphas, and the formula."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from matplotlib.figure import Figure

from specverify.report.plots.common import column, dots, integer_ticks, legend_below, prediction
from specverify.report.plots.style import MUTED, canvas, styled

__all__ = ["draw"]


@styled
def draw(study: Mapping[str, Any]) -> Figure:
    """Tokens per pass over the draft length.

    Args:
        study: Content of the study ``gpt_pair``.
    """
    rows = sorted(study["rows"], key=lambda row: row["gamma"])
    gammas = column(rows, "gamma")
    figure, axes = canvas()
    prediction(axes, gammas, rows, "predicted_tokens_per_pass")
    formula = column(rows, "iid_tokens_per_pass")
    axes.plot(gammas, formula, color=MUTED, linewidth=1.2, label="formula of a constant α")
    bounds = column(rows, "tokens_per_pass_low"), column(rows, "tokens_per_pass_high")
    dots(axes, gammas, column(rows, "tokens_per_pass"), bounds, index=1, label="measured")
    axes.set(xlabel="draft length γ (tokens)", ylabel="tokens per pass of the target")
    integer_ticks(axes)
    legend_below(figure, axes, columns=3)
    return figure
