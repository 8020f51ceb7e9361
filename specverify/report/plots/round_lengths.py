"""How many tokens a simulated round emits by kind of text, against the exact law of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from matplotlib.figure import Figure

from specverify.report.plots.common import column, dots, integer_ticks
from specverify.report.plots.style import MUTED, canvas, styled

__all__ = ["draw"]


@styled
def draw(study: Mapping[str, Any]) -> Figure:
    """Histogram of the round's length with the exact pmf as bars, a panel for each text.

    Args:
        study: Content of the study ``emitted_length``.
    """
    texts = list(dict.fromkeys(row["text"] for row in study["rows"]))
    rows = (len(texts) + 1) // 2
    figure, panels = canvas(rows=rows, columns=2, height=1.2 + 1.7 * rows, share=True)
    for axes in panels.flat[len(texts) :]:
        axes.set_visible(False)
    for axes, text in zip(panels.flat, texts, strict=False):
        _panel(axes, [row for row in study["rows"] if row["text"] == text])
        axes.set_title(f"α: {text}", loc="left")
    for axes in panels[-1]:
        axes.set_xlabel("emitted by a round (tokens)")
    figure.supylabel("share of the rounds (probability)", fontsize=9.5)
    handles, labels = panels.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2)
    return figure


def _panel(axes: Any, rows: list[Mapping[str, Any]]) -> None:
    tokens = column(rows, "tokens")
    look = {"facecolor": "none", "edgecolor": MUTED, "linewidth": 1.3}
    axes.bar(tokens, column(rows, "exact"), width=0.8, label="exact law", **look)
    bounds = column(rows, "share_low"), column(rows, "share_high")
    dots(axes, tokens, column(rows, "share"), bounds, label="simulated")
    axes.grid(axis="x", visible=False)
    integer_ticks(axes)
