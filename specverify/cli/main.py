"""The ``specverify`` command.

Exit codes: 0 all well (findings included), 1 a check failed, 2 wrong usage or target,
3 inconclusive or nothing ran, 4 a declared failure passed, 130 interrupted.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
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
_SUMMARIES: dict[Callable[..., None], str] = {
    audit.audit: "Audit an implementation: is the law right, is the speed right?",
    report.report: "Show finished audits again: text, JSON, Markdown, JUnit, a page.",
    replay.replay: "Run failed checks again from their record.",
    compare.compare: "Compare two audits; exit 1 if something got worse.",
    measure.measure: "Tokens per pass and speedup of a pair, beside the prediction.",
    bench.bench: "Measure speed beside the peers', in alternating runs.",
    plan.plan: "How many tokens a test needs to find a deviation.",
    logs.logs: 'The three "acceptance rates" in what engines print.',
    simulate.simulate: "Simulate rounds and times: one setting or a grid.",
    tune.tune: "Recommend gamma, with what bounds and misjudgements cost.",
    theory.theory: "Tokens per pass, speedup, best gamma, law of emitted lengths.",
    bugs.bugs: "List the known bugs and their controls.",
    selftest.selftest: "Fail every known bug and pass every control, here.",
    explore.explore: "Write a page with alpha, gamma, c and batch on sliders.",
    ls.ls: "List named targets, scenarios and the shipped models.",
    train.train: "Train a target and its drafts, or go on with it.",
}
for command, summary in _SUMMARIES.items():
    app.command(short_help=summary)(command)


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
