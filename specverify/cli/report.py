"""``specverify report RUN``: a finished audit, shown again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from specverify.cli.options import AsJson, UnusedSeed
from specverify.cli.shell import say, screen
from specverify.errors import InvalidInputError

if TYPE_CHECKING:
    from specverify.results import AuditResult

__all__ = ["rendered", "report"]

FORMATS = ("text", "json", "md", "junit")


def report(
    run: Annotated[
        Path, typer.Argument(metavar="RUN", help="A result.json, or the folder that holds it.")
    ],
    form: Annotated[str, typer.Option("--format", help="text, json, md or junit.")] = "text",
    as_json: AsJson = False,
    seed: UnusedSeed = 0,
) -> None:
    """Show a finished audit as text, JSON, Markdown or JUnit XML; nothing is run again."""
    from specverify.report.jsonout import read_result

    say(rendered(read_result(run), "json" if as_json else form))


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
    if form == "junit":
        from specverify.report.junit import render_junit

        return render_junit(result)
    raise InvalidInputError("--format", f"must be one of {', '.join(FORMATS)}; got {form!r}")
