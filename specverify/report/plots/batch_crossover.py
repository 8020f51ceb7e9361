"""Speedup over the batch: verifying is free until arithmetic binds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from specverify._arrays import FloatArray
from specverify.report.plots.common import column, dots, legend_below, reference_line
from specverify.report.plots.style import canvas, series, styled
from specverify.simulate.predictions import predict
from specverify.simulate.setting import Setting

__all__ = ["draw"]


@styled
def draw(study: Mapping[str, Any]) -> Figure:
    """Speedup over the number of sequences decoded together, a series for each gamma.

    Args:
        study: Content of the study ``batch_crossover``.
    """
    figure, axes = canvas(height=4.0)
    for index, gamma in enumerate(sorted({row["gamma"] for row in study["rows"]})):
        rows = [row for row in study["rows"] if row["gamma"] == gamma]
        look, batches = series(index), column(rows, "batch")
        places, theory = _theory(study["parameters"], gamma, int(batches.max()))
        axes.plot(places, theory, color=look.color, linestyle=look.dashes)
        bounds = column(rows, "speedup_low"), column(rows, "speedup_high")
        dots(axes, batches, column(rows, "speedup"), bounds, index=index, label=f"γ = {gamma}")
    reference_line(axes, 1.0, "plain decoding")
    axes.set(
        xlabel="batch (sequences decoded together)",
        ylabel="speedup (plain time over speculative time)",
    )
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter("{x:.0f}")
    legend_below(figure, axes, columns=3)
    return figure


def _theory(parameters: Mapping[str, Any], gamma: int, most: int) -> tuple[FloatArray, FloatArray]:
    """The closed form at many batches: its bends lie between the simulated ones."""
    places = np.unique(np.geomspace(1, most, 200).astype(np.int64))
    names = ("alpha", "c", "timing", "token_time")
    shared = {name: parameters[name] for name in names if name in parameters}
    points = [predict(Setting(**shared, gamma=gamma, batch=int(batch))) for batch in places]
    speedups = [np.nan if point is None else point.speedup for point in points]
    return places.astype(np.float64), np.array(speedups)
