"""``specverify explore``: a page with sliders, to be opened in any browser."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from specverify.cli.options import AsJson, UnusedSeed
from specverify.cli.shell import note, say_json, write_file

__all__ = ["explore"]


def explore(
    out: Annotated[
        Path, typer.Option(metavar="FILE", help="Where the page goes.", show_default=True)
    ] = Path("explorer.html"),
    as_json: AsJson = False,
    seed: UnusedSeed = 0,
) -> None:
    """Write a self-contained page: alpha, gamma, c and batch on sliders, the speedup beside them.

    With --json the values that the page is checked against are printed too.
    """
    from specverify.report.explorer import explorer_data, render_explorer

    data = explorer_data()
    write_file("--out", out, render_explorer(data))
    note(f"wrote {out}")
    if as_json:
        say_json(data)
