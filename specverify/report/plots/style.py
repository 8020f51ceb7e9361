"""One look for all figures: colours that a colour-blind reader tells apart, and a grey printer too.

Series differ in colour, marker and dashes at once. The colours are Okabe and Ito's, in an order of
falling darkness. A figure is as wide as a phone's screen can show without shrinking its text much.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, NamedTuple, ParamSpec

import matplotlib as mpl
from cycler import cycler
from matplotlib.figure import Figure

__all__ = ["INK", "MUTED", "SERIES", "STYLE", "Series", "canvas", "series", "styled"]

P = ParamSpec("P")

INK, MUTED, GRID = "#1b1b1b", "#6b6b6b", "#d9d9d9"
WIDTH = 5.6  # inches


class Series(NamedTuple):
    """How one series is drawn."""

    color: str
    marker: str
    dashes: Any


SERIES = (
    Series("#0072b2", "o", "-"),
    Series("#d55e00", "s", (0, (5, 1.5))),
    Series("#009e73", "^", (0, (1, 1.2))),
    Series("#cc79a7", "D", (0, (6, 1.5, 1, 1.5))),
    Series("#e69f00", "v", (0, (3, 1, 1, 1, 1, 1))),
    Series("#56b4e9", "P", (0, (8, 3))),
)

STYLE: dict[str, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 9.5,
    "axes.titlesize": 10,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.prop_cycle": cycler(color=[one.color for one in SERIES]),
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "text.color": INK,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "hatch.color": "white",  # on the map alone
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "lines.linewidth": 1.6,
    "lines.markersize": 4.5,
    "errorbar.capsize": 2.5,
    "figure.facecolor": "white",
    "axes.facecolor": "none",
    "savefig.facecolor": "white",
    "figure.constrained_layout.use": True,
    "svg.hashsalt": "specverify",
    "svg.fonttype": "path",
    "path.simplify": True,
}


def series(index: int) -> Series:
    """The look of the ``index``-th series; they repeat after the last."""
    return SERIES[index % len(SERIES)]


def styled(draw: Callable[P, Figure]) -> Callable[P, Figure]:
    """Let a drawing function see these settings and no others of the process."""

    @wraps(draw)
    def drawn(*args: P.args, **kwargs: P.kwargs) -> Figure:
        with mpl.rc_context():
            mpl.rcdefaults()
            mpl.rcParams.update(STYLE)
            return draw(*args, **kwargs)

    return drawn


def canvas(
    *,
    rows: int = 1,
    columns: int = 1,
    height: float = 3.6,
    height_ratios: Sequence[float] | None = None,
    share: bool = False,
) -> tuple[Figure, Any]:
    """A figure with a grid of axes; ``height`` inches in all.

    Returns:
        The figure, and its axes (one object, or an array of them).
    """
    figure = Figure(figsize=(WIDTH, height))
    axes = figure.subplots(rows, columns, height_ratios=height_ratios, sharex=share, sharey=share)
    return figure, axes
