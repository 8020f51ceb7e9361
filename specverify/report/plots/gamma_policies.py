"""What adapting the draft length earns, by kind of text and draft cost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from specverify.report.plots.common import column, dots, reference_line
from specverify.report.plots.style import canvas, styled

__all__ = ["draw"]


@styled
def draw(study: Mapping[str, Any]) -> Figure:
    """Speedup of each policy on each kind of text, a panel for each draft cost.

    Args:
        study: Content of the study ``gamma_policies``.
    """
    costs = sorted({row["c"] for row in study["rows"]})
    texts = list(dict.fromkeys(row["text"] for row in study["rows"]))
    figure, panels = canvas(rows=len(costs), height=1.4 + 2.0 * len(costs))
    panels = np.atleast_1d(panels)
    for axes, cost in zip(panels, costs, strict=True):
        _panel(axes, [row for row in study["rows"] if row["c"] == cost], texts)
        axes.set_title(f"draft step c = {cost:g} target steps", loc="left")
    panels[-1].set_xlabel("kind of text (how α varies)")
    figure.supylabel("speedup (plain time over speculative time)", fontsize=9.5)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=5)
    return figure


def _panel(axes: Any, rows: list[Mapping[str, Any]], texts: list[str]) -> None:
    reference_line(axes, 1.0, "plain")
    policies = list(dict.fromkeys(row["policy"] for row in rows))
    for index, policy in enumerate(policies):
        found = [row for row in rows if row["policy"] == policy]
        shift = 0.16 * (index - (len(policies) - 1) / 2)
        places = np.array([texts.index(row["text"]) for row in found]) + shift
        bounds = column(found, "speedup_low"), column(found, "speedup_high")
        dots(axes, places, column(found, "speedup"), bounds, index=index, label=policy)
    axes.set_xticks(range(len(texts)), labels=texts)
    axes.grid(axis="x", visible=False)
