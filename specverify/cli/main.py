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
app.command("audit", short_help="Audit an implementation: is the law right, is the speed right?")(
    audit.audit
)
app.command(
    "report", short_help="Show finished audits again: text, JSON, Markdown, JUnit, a page."
)(report.report)
app.command("replay", short_help="Run failed checks again from their record.")(replay.replay)
app.command("compare", short_help="Compare two audits; exit 1 if something got worse.")(
    compare.compare
)
app.command("measure", short_help="Tokens per pass and speedup of a pair, beside the prediction.")(
    measure.measure
)
app.command("bench", short_help="Measure speed beside the peers', in alternating runs.")(
    bench.bench
)
app.command("plan", short_help="How many tokens a test needs to find a deviation.")(plan.plan)
app.command("logs", short_help='The three "acceptance rates" in what engines print.')(logs.logs)
app.command("simulate", short_help="Simulate rounds and times: one setting or a grid.")(
    simulate.simulate
)
app.command("tune", short_help="Recommend gamma, with what bounds and misjudgements cost.")(
    tune.tune
)
app.command("theory", short_help="Tokens per pass, speedup, best gamma, law of emitted lengths.")(
    theory.theory
)
app.command("bugs", short_help="List the known bugs and their controls.")(bugs.bugs)
app.command("selftest", short_help="Fail every known bug and pass every control, here.")(
    selftest.selftest
)
app.command("explore", short_help="Write a page with alpha, gamma, c and batch on sliders.")(
    explore.explore
)
app.command("ls", short_help="List named targets, scenarios and the shipped models.")(ls.ls)
app.command("train", short_help="Train a target and its drafts, or go on with it.")(train.train)


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
