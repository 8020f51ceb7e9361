"""The ``specverify`` command.

Exit codes: 0 all well (findings included), 1 a check failed, 2 wrong usage or target,
3 inconclusive or nothing ran, 4 a declared failure passed, 130 interrupted.
"""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from specverify.cli import (
    audit,
    bench,
    bugs,
    compare,
    explore,
    logs,
    ls,
    measure,
    plan,
    replay,
    report,
    selftest,
    simulate,
    theory,
    train,
    tune,
)
from specverify.cli.shell import note, say
from specverify.errors import SpecVerifyError

__all__ = ["app", "main"]


class _Commands(TyperGroup):
    """Turns the errors that the suite raises on purpose into one line and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except SpecVerifyError as error:
            note(f"error: {error}")
            raise typer.Exit(2) from None
        except KeyboardInterrupt:
            note("interrupted")
            raise typer.Exit(130) from None


app = typer.Typer(
    cls=_Commands,
    help="Verify and simulate speculative decoding: is the law right, is the speed right?",
    epilog="Exit codes: 0 passed, 1 a check failed, 2 wrong usage or target, 3 inconclusive,"
    " 4 a declared failure passed, 130 interrupted.",
    no_args_is_help=True,
    add_completion=False,
    # Plain help and plain tracebacks: rich is loaded only to draw a table on a terminal.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.command("audit")(audit.audit)
app.command("report")(report.report)
app.command("replay")(replay.replay)
app.command("compare")(compare.compare)
app.command("measure")(measure.measure)
app.command("bench")(bench.bench)
app.command("plan")(plan.plan)
app.command("logs")(logs.logs)
app.command("simulate")(simulate.simulate)
app.command("tune")(tune.tune)
app.command("theory")(theory.theory)
app.command("bugs")(bugs.bugs)
app.command("selftest")(selftest.selftest)
app.command("explore")(explore.explore)
app.command("ls")(ls.ls)
app.command("train")(train.train)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        say(f"specverify {version('specdec-verify')}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Options of the command itself."""


def main() -> None:
    """Entry point of the ``specverify`` command and of ``python -m specverify``."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # an old locale shows a "?", and does not crash
            stream.reconfigure(errors="replace")
    app(prog_name="specverify")
