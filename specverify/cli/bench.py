"""``specverify bench``: how fast this is, beside its peers, on this machine."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from specverify.cli.options import AsJson, UnusedSeed, comma_separated
from specverify.cli.progress import progress
from specverify.cli.shell import say, say_json, say_records, writable_folder, write_file
from specverify.errors import MissingDependencyError

__all__ = ["bench"]


def bench(
    only: Annotated[
        str | None,
        typer.Option(
            help="Groups, separated by commas: verification, decoding, audit, start-up,"
            " simulation, memory."
        ),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Tiny sizes and three runs.")] = False,
    thorough: Annotated[
        bool, typer.Option("--thorough", help="V = 128,000 and batches of 1,024 as well.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write bench.json and bench.md here."),
    ] = None,
    as_json: AsJson = False,
    seed: UnusedSeed = 0,
) -> None:
    """Measure speed beside the peers', in alternating runs; whatever is found, exit 0."""
    writable_folder("--out", out)
    try:
        from specverify.bench.run import as_markdown, chosen, machine, measured, rows
        from specverify.bench.timing import Size

        size = Size(quick=quick, thorough=thorough)
        groups = chosen(comma_separated(only))
        content: dict[str, Any] = {
            "command": " ".join(["specverify", *sys.argv[1:]]),
            "runs": size.runs,
            "machine": machine(),
            "measurements": [],
        }
        with progress() as show:
            for done, group in enumerate(groups):
                show("measuring", done, len(groups), group)
                for record in measured(group, size):
                    content["measurements"].append(record)
                    show("measuring", done, len(groups), f"{group}: {record['what']}")
            show("measuring", len(groups), len(groups), "")
    except ModuleNotFoundError as error:
        raise MissingDependencyError(error.name or "torch", "torch") from error
    if out is not None:
        write_file("--out", out / "bench.json", json.dumps(content, indent=1) + "\n")
        write_file("--out", out / "bench.md", as_markdown(content))
    if as_json:
        say_json(content)
        return
    for record in content["measurements"]:
        lines = [{"": name, "value": value} for name, value in rows(record)]
        say_records(lines, title=f"{record['group']}: {record['what']}")
        say("")
