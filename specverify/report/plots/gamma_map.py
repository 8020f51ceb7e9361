"""The best gamma over acceptance rate and draft cost, and what a fixed gamma loses against it."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.colors import BoundaryNorm
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from specverify.report.plots.style import canvas, styled
from specverify.theory.optimal_gamma import optimal_gamma
from specverify.theory.speedup import speculative_speedup

__all__ = ["draw"]

_EDGES = (0.5, 1.5, 2.5, 3.5, 4.5, 6.5, 8.5, 12.5, 16.5, 24.5, 32.5)
_LABELS = ("1", "2", "3", "4", "5-6", "7-8", "9-12", "13-16", "17-24", "25-32")
# The map has its own colours: in a dark page, too, white lines keep their dark rim.
_RIM = "#000000"
_LOSSES = (0.02, 0.05, 0.1, 0.2)


@styled
def draw(*, gamma: int = 4, max_gamma: int = 32, points: int = 240) -> Figure:
    """Map of the optimal draft length, with contours of the loss of one fixed length.

    Args:
        gamma: The fixed draft length whose loss of speedup is contoured.
        max_gamma: Longest draft allowed, at most 32.
        points: Points along each axis.
    """
    alpha = np.linspace(0.3, 0.99, points)[None, :]
    cost = np.geomspace(0.005, 0.5, points)[:, None]
    best = optimal_gamma(*np.broadcast_arrays(alpha, cost), max_gamma=max_gamma)
    top = speculative_speedup(alpha, best, cost)
    loss = 1 - speculative_speedup(alpha, gamma, cost) / top
    figure, axes = canvas(height=4.6)
    mesh = axes.pcolormesh(
        alpha[0],
        cost[:, 0],
        best,
        cmap="cividis",
        norm=BoundaryNorm(_EDGES, 256),
        rasterized=True,
    )
    _lines(axes, alpha[0], cost[:, 0], loss)
    axes.contourf(alpha[0], cost[:, 0], top, levels=[0, 1], colors=["none"], hatches=["////"])
    axes.set(
        yscale="log",
        xlabel="acceptance rate α (probability)",
        ylabel="cost of a draft step c (target steps)",
    )
    axes.grid(visible=False)
    _scale(figure, mesh)
    handles = [
        Patch(facecolor="#00224e", edgecolor="white", hatch="////", label="no gain at any γ"),
        *_line_handle(gamma),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=2)
    return figure


def _lines(axes: Any, alpha: Any, cost: Any, loss: Any) -> None:
    from matplotlib.patheffects import withStroke

    drawn = axes.contour(alpha, cost, loss, levels=_LOSSES, colors="white", linewidths=1.1)
    labels = axes.clabel(drawn, fmt=lambda value: f"-{value:.0%}", fontsize=8.5, inline=False)
    # White lines and words with a dark rim are seen on every colour below.
    drawn.set_path_effects([withStroke(linewidth=2.4, foreground=_RIM)])
    for label in labels:
        label.set_path_effects([withStroke(linewidth=2, foreground=_RIM)])


def _line_handle(gamma: int) -> list[Any]:
    from matplotlib.lines import Line2D
    from matplotlib.patheffects import withStroke

    rim = [withStroke(linewidth=2.4, foreground=_RIM)]
    label = f"speedup lost at γ = {gamma}, against the best γ"
    return [Line2D([], [], color="white", linewidth=1.1, path_effects=rim, label=label)]


def _scale(figure: Any, mesh: Any) -> None:
    bar = figure.colorbar(mesh, label="best γ (draft tokens)", spacing="uniform")
    middles = [(low + high) / 2 for low, high in pairwise(_EDGES)]
    bar.set_ticks(middles, labels=_LABELS)
    bar.ax.tick_params(length=0)
