"""What several figures draw: dots with intervals, a line to compare with, a legend below."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from specverify._arrays import FloatArray
from specverify.report.plots.style import MUTED, series

__all__ = ["column", "dots", "integer_ticks", "legend_below", "prediction", "reference_line"]


def column(rows: Sequence[Mapping[str, Any]], key: str) -> FloatArray:
    """One number of every row, shape ``(rows,)``."""
    return np.array([row[key] for row in rows], dtype=np.float64)


def dots(
    axes: Any, x: ArrayLike, y: ArrayLike, bounds: tuple[ArrayLike, ArrayLike], **look: Any
) -> None:
    """Dots, each with its interval.

    Args:
        axes: Where.
        x: Places, shape ``(n,)``.
        y: Estimates, same shape.
        bounds: Lower and upper bounds, same shape.
        look: ``index`` of the series; ``horizontal`` if the estimates go along x and ``x`` holds
            the heights; and whatever ``errorbar`` takes.
    """
    one, horizontal = series(look.pop("index", 0)), look.pop("horizontal", False)
    low, high = (np.asarray(bound, dtype=np.float64) for bound in bounds)
    middle = np.asarray(y, dtype=np.float64)
    # Rounding may put an estimate a hair outside bounds that it touches.
    reach = np.clip([middle - low, high - middle], 0, None)
    style = {"fmt": one.marker, "color": one.color, "elinewidth": 1.2, "capthick": 1.0}
    if horizontal:
        axes.errorbar(middle, x, xerr=reach, **(style | look))
    else:
        axes.errorbar(x, middle, yerr=reach, **(style | look))


def reference_line(axes: Any, value: float, label: str, *, vertical: bool = False) -> None:
    """A thin line at ``value``, named in the legend."""
    draw = axes.axvline if vertical else axes.axhline
    draw(value, color=MUTED, linewidth=1.0, linestyle=(0, (2, 2)), label=label)


def prediction(axes: Any, x: ArrayLike, rows: Sequence[Mapping[str, Any]], key: str) -> None:
    """A predicted curve, the column ``key``, within the band of its bounds."""
    look = series(0)
    low, high = column(rows, f"{key}_low"), column(rows, f"{key}_high")
    axes.fill_between(x, low, high, color=look.color, alpha=0.2, linewidth=0)
    axes.plot(x, column(rows, key), color=look.color, label="predicted, 95 % band")


def legend_below(figure: Any, axes: Any, *, columns: int = 2) -> None:
    """One legend under the axes, where it covers no data."""
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=columns)


def integer_ticks(axes: Any) -> None:
    """Ticks at whole numbers along x."""
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
