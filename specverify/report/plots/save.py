"""Figures as bytes, the same on every run: SVG and PNG files, and SVG to stand inside a page."""

from __future__ import annotations

import io
import re
import warnings
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from specverify.report.plots.style import INK, MUTED, SERIES, STYLE

__all__ = ["inline_svg", "png_bytes", "save", "svg_bytes"]

_DPI = 160
_GRID = STYLE["grid.color"]
# In a page the colours are the style sheet's, which knows a light and a dark one of each.
_VARIABLES = {INK: "--ink", MUTED: "--muted", _GRID: "--grid"} | {
    one.color: f"--series-{number}" for number, one in enumerate(SERIES, start=1)
}
_IDS = re.compile(r'(\bid="|href="#|url\(#)')


def svg_bytes(figure: Figure) -> bytes:
    """The figure as an SVG file: text as outlines, no date."""
    return _written(figure, {}, format="svg", metadata={"Date": None})


def png_bytes(figure: Figure) -> bytes:
    """The figure as a PNG file, for places that show no SVG."""
    return _written(figure, {}, format="png", dpi=_DPI, metadata={"Software": None})


def save(figure: Figure, stem: Path) -> list[Path]:
    """Write ``stem.svg`` and ``stem.png``; returns their paths."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    svg, png = stem.with_suffix(".svg"), stem.with_suffix(".png")
    svg.write_bytes(svg_bytes(figure))
    png.write_bytes(png_bytes(figure))
    return [svg, png]


def inline_svg(figure: Figure, *, prefix: str, title: str) -> str:
    """An ``<svg>`` element for a page: real text, the page's colours, ids of its own.

    Args:
        figure: What to show.
        prefix: Put before every id, since a page may hold many figures; letters, digits, hyphens.
        title: What a screen reader says, plain text.
    """
    text = {"svg.fonttype": "none", "savefig.facecolor": "none", "figure.facecolor": "none"}
    figure.patch.set_visible(False)
    raw = _written(figure, text, format="svg", metadata={"Date": None}).decode()
    figure.patch.set_visible(True)
    body = raw[raw.index("<svg") :]
    body = re.sub(r"<metadata>.*?</metadata>\s*", "", body, flags=re.DOTALL)
    body = re.sub(r'(<svg\b[^>]*?)\swidth="[^"]*"', r"\1", body, count=1)
    body = re.sub(r'(<svg\b[^>]*?)\sheight="[^"]*"', r"\1", body, count=1)
    body = _IDS.sub(rf"\g<1>{prefix}-", body)
    for color, name in _VARIABLES.items():
        body = body.replace(color, f"var({name}, {color})")
    return body.replace("<svg ", f'<svg role="img" aria-label="{_attribute(title)}" ', 1)


def _written(figure: Figure, settings: dict[str, Any], **options: Any) -> bytes:
    buffer = io.BytesIO()
    with mpl.rc_context(), warnings.catch_warnings():
        # A name in a script that the font lacks: a page shows it in one of its own.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        mpl.rcdefaults()
        mpl.rcParams.update(STYLE | settings)
        FigureCanvasAgg(figure)
        figure.savefig(buffer, **options)
    return buffer.getvalue()


def _attribute(text: str) -> str:
    for character, entity in {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"}.items():
        text = text.replace(character, entity)
    return text
