"""Figures: labelled, without overlaps, every dot with its interval, the same bytes each time."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure
from matplotlib.text import Text

from specverify.report.figures import FIGURES, FigureKind, draw_figure, drawn_or_reason
from specverify.report.overview import law_bound
from specverify.report.plots import bounds
from specverify.report.plots.save import inline_svg, png_bytes, save, svg_bytes
from specverify.report.plots.style import SERIES, canvas, styled
from specverify.report.studies import read_studies
from specverify.results import AuditResult

REPORTS = Path(__file__).resolve().parents[2] / "reports"
STUDIES = read_studies(REPORTS)
# Studies of minutes, or of this machine's clock: drawn from their committed JSON.
SLOW = {"calibration", "power", "gpt_pair", "gpt_pair_times", "gpt_pair_positions"}
# Exact quantities, which have no error to show.
COMPUTED = {"best fixed-n chi-square (computed)"}

KINDS = pytest.mark.parametrize("kind", FIGURES, ids=lambda kind: kind.name)


def texts(figure: Figure) -> list[tuple[str, Any]]:
    """Every text that is drawn, with the box that it takes."""
    drawn: dict[Text, None] = {}
    original = Text.draw

    def noted(text: Text, *args: Any, **kwargs: Any) -> None:
        # Axes keep tick labels outside their view; only drawing tells those that are shown.
        drawn[text] = None
        original(text, *args, **kwargs)

    canvas = FigureCanvasAgg(figure)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Text, "draw", noted)
        canvas.draw()
    renderer = canvas.get_renderer()
    # Contour labels are turned; the box around a turned text is larger than the text.
    seen = [t for t in drawn if t.get_visible() and t.get_text().strip()]
    upright = [text for text in seen if text.get_rotation() % 90 == 0]
    return [(text.get_text(), text.get_window_extent(renderer)) for text in upright]


def overlaps(figure: Figure) -> list[tuple[str, str]]:
    return [
        (a, b) for (a, one), (b, other) in combinations(texts(figure), 2) if one.overlaps(other)
    ]


def cut_off(figure: Figure) -> list[str]:
    width, height = figure.canvas.get_width_height()
    return [
        text
        for text, box in texts(figure)
        if box.x0 < -1 or box.y0 < -1 or box.x1 > width + 1 or box.y1 > height + 1
    ]


def bare_dots(figure: Figure) -> list[str]:
    """Labels of marked lines that have no error bars."""
    bare = []
    for axes in figure.axes:
        barred = {c.lines[0] for c in axes.containers if isinstance(c, ErrorbarContainer)}
        marked = [line for line in axes.lines if line.get_marker() not in ("None", "", None)]
        caps = {cap for c in axes.containers if isinstance(c, ErrorbarContainer) for cap in c[1]}
        bare += [str(line.get_label()) for line in marked if line not in barred | caps]
    return bare


def unlabelled(figure: Figure) -> list[str]:
    """Axes that say neither themselves nor through the figure what they show."""
    whole = {"x": figure.get_supxlabel(), "y": figure.get_supylabel()}
    # A colour bar has one axis alone, beside it.
    panels = [one for one in figure.axes if one.get_visible() and one.get_label() != "<colorbar>"]
    last, missing = panels[-1], []
    for axes in panels:
        named = {"x": axes.get_xlabel(), "y": axes.get_ylabel()}
        words = [t.get_text() for t in axes.get_yticklabels() if t.get_text()[:1].isalpha()]
        for name, label in named.items():
            # Panels below each other share the lowest one's label; names need no unit.
            if not (label or whole[name] or (name == "x" and last.get_xlabel()) or words):
                missing.append(f"{axes.get_title()}: {name}")
    return missing


@KINDS
def test_a_figure_can_be_read(kind: FigureKind) -> None:
    figure = draw_figure(kind, STUDIES)
    assert overlaps(figure) == []
    assert cut_off(figure) == []
    assert unlabelled(figure) == []
    assert set(bare_dots(figure)) <= COMPUTED


@styled
def unreadable() -> Figure:
    figure, axes = canvas()
    axes.plot([1, 2], [1, 2], "o", label="no interval")
    axes.text(0.5, 0.5, "one label", transform=axes.transAxes)
    axes.text(0.52, 0.51, "and another", transform=axes.transAxes)
    figure.text(0.9, 0.5, "a text that leaves the paper")
    return figure


def test_an_unreadable_figure_is_seen() -> None:
    figure = unreadable()
    assert ("one label", "and another") in overlaps(figure)
    assert cut_off(figure) == ["a text that leaves the paper"]
    assert bare_dots(figure) == ["no interval"]
    assert unlabelled(figure) == [": x", ": y"]


@KINDS
def test_drawing_twice_gives_the_same_bytes(kind: FigureKind, tmp_path: Path) -> None:
    once, again = (draw_figure(kind, STUDIES) for _ in range(2))
    for written in save(once, tmp_path / kind.name):
        content = svg_bytes(again) if written.suffix == ".svg" else png_bytes(again)
        assert written.read_bytes() == content


def test_another_process_draws_the_same_bytes() -> None:
    code = (
        "import hashlib, pathlib, sys; from specverify.report.figures import *;"
        "from specverify.report.plots.save import svg_bytes, png_bytes;"
        "from specverify.report.studies import read_studies;"
        "f = draw_figure(FIGURES[0], read_studies(pathlib.Path(sys.argv[1])));"
        "print(hashlib.sha256(svg_bytes(f) + png_bytes(f)).hexdigest())"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, REPORTS], check=True, capture_output=True, text=True
    )
    figure = draw_figure(FIGURES[0], STUDIES)
    mine = hashlib.sha256(svg_bytes(figure) + png_bytes(figure)).hexdigest()
    assert ran.stdout.strip() == mine


@KINDS
def test_a_missing_study_is_told(kind: FigureKind) -> None:
    figure, reason = drawn_or_reason(kind, {})
    if kind.study is None:
        assert figure is not None
    else:
        assert figure is None
        assert f"no {kind.study}.json" in reason


@pytest.mark.parametrize(
    "broken", [{}, {"rows": []}, {"rows": [{}], "parameters": {}}, {"rows": 3}]
)
def test_a_study_cut_short_is_told(broken: dict[str, Any]) -> None:
    for kind in FIGURES:
        if kind.study is not None:
            figure, reason = drawn_or_reason(kind, {kind.study: broken})
            assert figure is None
            assert f"{kind.study}.json does not hold" in reason


def test_series_differ_without_colour() -> None:
    assert len({one.marker for one in SERIES}) == len(SERIES)
    assert len({str(one.dashes) for one in SERIES}) == len(SERIES)


def test_an_inline_figure_keeps_its_identifiers_to_itself() -> None:
    figure = draw_figure(FIGURES[0], STUDIES)
    svg = inline_svg(figure, prefix="mine", title='a "title" <&>')
    assert svg.startswith('<svg role="img" aria-label="a &quot;title&quot; &lt;&amp;&gt;"')
    assert ' id="mine-' in svg
    assert 'id="figure_1"' not in svg
    assert "metadata" not in svg
    assert "var(--series-1, #0072b2)" in svg
    assert svg_bytes(figure).startswith(b"<?xml")  # the figure itself is as it was


def test_bounds_of_one_and_of_many_audits(failing_audit: AuditResult) -> None:
    check = law_bound(failing_audit)
    assert check is not None
    for count in (1, 3, 500):
        figure = bounds.draw([bounds.Bound(f"audit {i}", check) for i in range(count)])
        assert overlaps(figure) == cut_off(figure) == bare_dots(figure) == []
        assert len(figure.axes[0].get_yticks()) == min(count, bounds.MOST)


def test_other_json_is_no_study(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps({"study": "a", "rows": []}))
    (tmp_path / "list.json").write_text("[1]")
    (tmp_path / "other.json").write_text('{"run": 1}')
    (tmp_path / "broken.json").write_text("{")
    assert list(read_studies(tmp_path)) == ["a"]


def test_every_study_that_is_shown_has_its_script() -> None:
    scripts = REPORTS.parent / "simulations"
    driver = (scripts / "make_report.py").read_text()
    for name, study in STUDIES.items():
        if any(kind.study == name for kind in FIGURES):
            # What makes it is either run by the driver or said by the file itself.
            script = study.get("command", f"python simulations/{name}.py").split()[1]
            assert (REPORTS.parent / script).is_file(), script
            assert f'"{name}"' in driver or name in SLOW, name
