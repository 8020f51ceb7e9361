"""``specverify replay RUN[/CHECK]``: what failed, run again from its record."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from specverify.cli.options import AsJson, Workers, usual_workers
from specverify.cli.progress import progress
from specverify.cli.shell import note, say, say_json, say_records, terminable
from specverify.errors import UnknownTargetError

if TYPE_CHECKING:
    from specverify.audit.replay import Replay
    from specverify.results import AuditResult, CheckResult

__all__ = ["replay"]

_NOTHING_RAN = 3
_SHOWN = ("verdict", "n", "statistic", "p_value", "e_value")


def replay(
    run: Annotated[
        str,
        typer.Argument(
            metavar="RUN[/CHECK]",
            help="A folder with a result.json (or the file), and a check's name or pattern; the"
            " checks that failed if none is given.",
        ),
    ],
    workers: Workers = None,
    as_json: AsJson = False,
    seed: Annotated[
        int | None,
        typer.Option(min=0, help="Another seed than the record's: then only verdicts must agree."),
    ] = None,
) -> None:
    """Run failed checks again from their record: exit 0 if they come out just as recorded."""
    from specverify.audit.replay import choose_checks
    from specverify.report.jsonout import read_result

    folder, pattern = _split(run)
    result = read_result(folder)
    checks = choose_checks(result, pattern)
    if not checks:
        note(f"no check of {folder} failed: nothing to replay")
        raise typer.Exit(_NOTHING_RAN)
    found = _run(result, checks, seed, usual_workers() if workers is None else workers)
    if as_json:
        import msgspec  # `--help` stays light

        say_json(msgspec.to_builtins(found))
    else:
        _show(found, result.seed)
    raise typer.Exit(0 if found.reproduced else 1)


def _split(run: str) -> tuple[Path, str | None]:
    """The run and the check; a check's name has no slash."""
    path = Path(run)
    if path.exists():
        return path, None
    if path.parent.joinpath("result.json").is_file() or path.parent.is_file():
        return path.parent, path.name
    there = path.parent if path.parent.is_dir() else Path()
    runs = [found.parent.name for found in there.glob("*/result.json")]
    close = difflib.get_close_matches(path.name, runs, n=3)
    hint = f"; did you mean {' or '.join(str(there / name) for name in close)}?" if close else ""
    raise UnknownTargetError("RUN", f"no such run: {run}{hint}")


def _run(
    result: AuditResult, checks: tuple[CheckResult, ...], seed: int | None, workers: int
) -> Replay:
    from specverify.audit.progress import Progress
    from specverify.audit.replay import replay as run_again

    with terminable(), progress() as show:

        def report(state: Progress) -> None:
            if state.stage == "load":
                show(f"loading {result.target['name']}", 0, 0, "")
            else:
                show("replay", state.done, state.total, state.scenario)

        return run_again(result, checks, seed=seed, workers=workers, progress=report)


def _show(found: Replay, recorded_seed: int) -> None:
    rows: list[dict[str, Any]] = []
    for pair in found.checks:
        for kind, check in (("recorded", pair.recorded), ("replayed", pair.replayed)):
            values = {name: getattr(check, name) for name in _SHOWN}
            rows.append({"check": pair.name, "": kind, **values})
    say_records(rows)
    say("")
    for pair in found.checks:
        if pair.differing:
            say(f"{pair.name} differs: {', '.join(pair.differing)}")
    for change in found.changed:
        say(f"changed since: {change}")
    same = "reproduced exactly" if found.seed == recorded_seed else "the verdicts agree"
    say(f"{same if found.reproduced else 'not reproduced'}, seed {found.seed}")
