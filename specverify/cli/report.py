"""``specverify report RUN...``: finished audits, shown again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from specverify.cli.options import AsJson, UnusedSeed
from specverify.cli.shell import note, say, screen, writable_file, write_file
from specverify.errors import InvalidInputError

if TYPE_CHECKING:
    from specverify.results import AuditResult

__all__ = ["rendered", "rendered_all", "report"]

FORMATS = ("text", "json", "md", "junit", "html")


def report(
    run: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="RUN...",
            help="Each a result.json, the folder that holds it, or a folder to search for them.",
        ),
    ] = None,
    form: Annotated[str, typer.Option("--format", help=f"{', '.join(FORMATS)}.")] = "text",
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write one HTML page about all of them.")
    ] = None,
    studies: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder of studies that the page shows too."),
    ] = None,
    as_json: AsJson = False,
    seed: UnusedSeed = 0,
) -> None:
    """Show finished audits as text, JSON, Markdown, JUnit XML or a page; nothing is run again."""
    from specverify.report.runs import read_runs
    from specverify.report.studies import read_studies

    if not run and html is None:
        raise InvalidInputError("RUN", "name at least one audit (only --html goes without)")
    if studies is not None and html is None:
        raise InvalidInputError("--studies", "are shown on a page: give --html FILE, too")
    writable_file("--html", html)
    runs = read_runs(run or [])
    for problem in runs.unreadable:
        note(f"passed over: {problem}")
    if html is not None:
        from specverify.report.page import render_page

        shown = None if studies is None else read_studies(studies)
        page = render_page(runs.results, shown, unreadable=runs.unreadable)
        write_file("--html", html, page)
        note(f"wrote {html}")
    if runs.results or html is None:
        say(rendered_all(runs.results, "json" if as_json else form))


def rendered_all(results: Sequence[AuditResult], form: str) -> str:
    """One audit in full, several at a glance (as JSON: a list of all in full).

    Raises:
        InvalidInputError: If there is no such format.
    """
    if len(results) == 1:
        return rendered(results[0], form)
    if form == "text":
        from specverify.report.text import render_text_overview

        width, color = screen()
        return render_text_overview(results, width=width, color=color)
    if form == "json":
        from specverify.report.jsonout import render_json_list

        return render_json_list(results)
    if form == "md":
        from specverify.report.markdown import render_markdown_overview

        return render_markdown_overview(results)
    return _in_one_document(results, form)


def rendered(result: AuditResult, form: str) -> str:
    """The audit in one of ``FORMATS``; text fits the terminal.

    Raises:
        InvalidInputError: If there is no such format.
    """
    if form == "text":
        from specverify.report.text import render_text

        width, color = screen()
        return render_text(result, width=width, color=color)
    if form == "json":
        from specverify.report.jsonout import render_json

        return render_json(result)
    if form == "md":
        from specverify.report.markdown import render_markdown

        return render_markdown(result)
    return _in_one_document([result], form)


def _in_one_document(results: Sequence[AuditResult], form: str) -> str:
    """Formats that hold any number of audits alike."""
    if form == "junit":
        from specverify.report.junit import render_junit

        return render_junit(*results)
    if form == "html":
        from specverify.report.page import render_page

        return render_page(results)
    raise InvalidInputError("--format", f"must be one of {', '.join(FORMATS)}; got {form!r}")
