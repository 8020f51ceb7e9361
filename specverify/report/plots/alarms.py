"""Power: how many tokens until an alarm, by the size of the bug."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from specverify.report.plots.common import dots, legend_below
from specverify.report.plots.style import MUTED, canvas, styled
from specverify.stats.power import sample_size

__all__ = ["draw"]


@styled
def draw(study: Mapping[str, Any]) -> Figure:
    """Median tokens to an alarm over the total variation of the bug, with 95 % bounds.

    Args:
        study: Content of the study ``power``.
    """
    figure, axes = canvas(height=4.2)
    distances = np.geomspace(4e-4, 0.9, 60)
    needed = [sample_size(float(tv), 2, study["level"], 0.9) for tv in distances]
    axes.plot(
        distances, needed, color=MUTED, linewidth=1.2, label="chi-square, guaranteed (2 cells)"
    )
    rows = [*study["structural"], *study["subtle"]]
    _series(axes, rows, "zoo", 0, "e-process, told the zoo")
    _series(axes, rows, "alone", 2, "e-process, told nothing")
    fixed = [row for row in rows if row["fixed n"] > 0]
    # An exact quantity of the noncentral law: there is no sampling error to show.
    axes.plot(
        [row["tv"] for row in fixed],
        [row["fixed n"] for row in fixed],
        linestyle="none",
        marker="x",
        color=MUTED,
        label="best fixed-n chi-square (computed)",
    )
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="total variation between the bug's law and the target's",
        ylabel=f"until an alarm at level {study['level']:g} (tokens)",
    )
    legend_below(figure, axes)
    return figure


def _series(axes: Any, rows: list[Mapping[str, Any]], key: str, index: int, label: str) -> None:
    found = [row for row in rows if key in row]
    middle, low, high = (
        np.array([row[key][name] for row in found]) for name in ("median", "low", "high")
    )
    places = [row["tv"] for row in found]
    dots(axes, places, middle, (low, high), index=index, label=f"{label} (median)")
