"""Calibration: rates that were promised beside rates that were counted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from matplotlib.figure import Figure

from specverify.report.plots.common import dots
from specverify.report.plots.style import MUTED, canvas, styled

__all__ = ["draw"]

_FLOOR = 1e-5


@styled
def draw(study: Mapping[str, Any]) -> Figure:
    """False-alarm rates and coverages, each with its 95 % interval beside what was promised.

    Args:
        study: Content of the study ``calibration``.
    """
    alarms, covered = list(_alarms(study)), list(_coverages(study))
    if not alarms or not covered:
        raise ValueError("no rates")
    heights = [len(alarms), len(covered)]
    figure, (top, bottom) = canvas(rows=2, height=1.8 + 0.18 * sum(heights), height_ratios=heights)
    _panel(top, alarms)
    top.set(
        xscale="log",
        xlim=(_FLOOR, 1),
        xlabel="false alarms of a right sampler (probability)",
        title="False alarms: a promise is kept left of its line",
    )
    _panel(bottom, covered)
    bottom.set(
        xlim=(0.4, 1.0),
        xlabel="covered, or found (probability)",
        title="Coverage and power: a promise is kept at its line",
    )
    return figure


def _panel(axes: Any, entries: list[tuple[str, float, Mapping[str, Any]]]) -> None:
    height = len(entries)
    for place, (_, promised, row) in enumerate(entries):
        y = height - place
        axes.plot([promised, promised], [y - 0.35, y + 0.35], color=MUTED, linewidth=2)
        bounds = [max(row["low"], _FLOOR)], [row["high"]]
        face = {} if row["hits"] else {"markerfacecolor": "white"}  # hollow: none was seen
        middle = [max(row["rate"], _FLOOR)]
        dots(axes, [y], middle, bounds, horizontal=True, clip_on=False, **face)
    axes.set_yticks(range(height, 0, -1), labels=[label for label, _, _ in entries])
    axes.tick_params(axis="y", labelsize=8, length=0)
    axes.set_ylim(0.3, height + 0.7)
    axes.grid(axis="y", visible=False)


def _alarms(study: Mapping[str, Any]) -> Iterator[tuple[str, float, Mapping[str, Any]]]:
    for row in study.get("chi_square_level", ()):
        yield f"chi-square, {row['cells']}, V {row['vocab']:,}", 1e-3, row
    for row in study.get("repeated_looks", ()):
        yield f"chi-square, looked at {row['looks']} x", 1e-3, row
    for name in ("watched_contexts", "watched_streams", "watched_pair"):
        for row in study.get(name, ()):
            kind = {"watched_streams": " mixed", "watched_pair": " pair"}.get(name, "")
            label = f"e-process, V {row['vocab']:,}{kind}, {_level(row['level'])}"
            yield label, row["level"], row
    for row in study.get("acceptance", ()):
        if row["what"].startswith("false alarms"):
            yield row["what"].partition(": ")[2], 1e-3, row


def _coverages(study: Mapping[str, Any]) -> Iterator[tuple[str, float, Mapping[str, Any]]]:
    for row in study.get("distances", ()):
        what = "power" if row["what"].startswith("power") else "TV bound covers"
        yield f"{what}, {row['cells']} cells", 0.95, row
    for row in study.get("acceptance", ()):
        if row["what"].startswith("coverage"):
            yield row["what"].partition(": ")[2], 0.95, row


def _level(level: float) -> str:
    return f"{level:.0e}".replace("e-0", "e-")
