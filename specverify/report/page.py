"""Audits and studies as one HTML page: no network, no script, readable on a phone and on paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from specverify.errors import MissingDependencyError
from specverify.report.characters import printable
from specverify.report.figures import FIGURES, FigureKind, drawn_or_reason
from specverify.report.overview import labels, law_bound, worst_first
from specverify.report.story import tell
from specverify.report.tables import Table, records_table
from specverify.report.templating import asset, filled, trusted
from specverify.results import AuditResult, Verdict

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["render_page"]

_LABEL = 28


@dataclass(frozen=True)
class _Shown:
    """A figure on the page, or why it is not there."""

    name: str = ""
    title: str = ""
    caption: str = ""
    command: str = ""
    svg: Any = ""
    reason: str = ""
    left_out: int = 0
    table: Table | None = None


def render_page(
    results: Sequence[AuditResult],
    studies: Mapping[str, Mapping[str, Any]] | None = None,
    *,
    unreadable: Sequence[str] = (),
) -> str:
    """Audits, and studies if given, as one HTML document.

    Args:
        results: Any number of audits, in any order.
        studies: Contents of studies by name; None leaves the studies out.
        unreadable: Files that were no audits, one sentence each.

    Returns:
        The document, ending in a newline. It holds no script and asks for nothing from outside;
        every text that an audit holds is escaped.

    Raises:
        MissingDependencyError: If jinja2 is not installed; without matplotlib the page says so in
            place of its figures.
    """
    return filled(
        "report.html.j2",
        css=trusted(asset("base.css") + asset("page.css")),
        story=tell(results),
        bounds=_bounds(results),
        figures=[] if studies is None else [_study(kind, studies) for kind in FIGURES],
        unreadable=list(unreadable),
        verdict_words=frozenset(map(str, Verdict)),
    )


def _study(kind: FigureKind, studies: Mapping[str, Mapping[str, Any]]) -> _Shown:
    figure, reason = drawn_or_reason(kind, studies)
    study = {} if kind.study is None else studies.get(kind.study, {})
    return _Shown(
        name=kind.name,
        title=kind.title,
        caption=kind.caption,
        command=str(study.get("command", "")),
        svg="" if figure is None else _inline(figure, kind.name, kind.title),
        reason=reason,
        table=None if figure is None else _table(kind, study),
    )


def _table(kind: FigureKind, study: Mapping[str, Any]) -> Table | None:
    if not kind.columns:
        return None
    return records_table([{key: row.get(key) for key in kind.columns} for row in study["rows"]])


def _inline(figure: Figure, name: str, title: str) -> Any:
    from specverify.report.plots.save import inline_svg

    return trusted(inline_svg(figure, prefix=name.replace("_", "-"), title=title))


def _bounds(results: Sequence[AuditResult]) -> _Shown:
    ordered = worst_first(results)
    found = [
        (_shortened(label), check)
        for label, result in zip(labels(ordered), ordered, strict=True)
        if (check := law_bound(result)) is not None
    ]
    if not found:
        return _Shown(reason="no audit bounds the law" if results else "")
    try:
        from specverify.report.plots import bounds
    except ImportError:
        return _Shown(reason=str(MissingDependencyError("matplotlib", "report")))
    figure = bounds.draw([bounds.Bound(*one) for one in found])
    svg = _inline(figure, "bounds", "How far the law of each audit may be off")
    return _Shown(svg=svg, left_out=max(0, len(found) - bounds.MOST))


def _shortened(label: str) -> str:
    """One line, the end of a long name (it tells more than its folders), no mathematics."""
    line = " ".join(printable(label).split())
    cut = line if len(line) <= _LABEL else f"...{line[3 - _LABEL :]}"
    return cut.replace("$", r"\$")  # two dollars would be set as a formula
