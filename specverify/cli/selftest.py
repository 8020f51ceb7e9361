"""``specverify selftest``: does every known bug fail here, and does every control pass?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from specverify.cli.options import AsJson, Seed
from specverify.cli.progress import progress
from specverify.cli.shell import say, say_json, say_records

if TYPE_CHECKING:
    from specverify.selftest.outcome import Row, SelftestResult

__all__ = ["selftest"]

_LEFT_OUT = ("right", "effect", "note")


def selftest(
    thorough: Annotated[
        bool, typer.Option("--thorough", help="The full study: more runs, larger vocabularies.")
    ] = False,
    only: Annotated[
        str | None, typer.Option(metavar="PATTERN", help="Members to test, by name or pattern.")
    ] = None,
    workers: Annotated[int, typer.Option(min=1, help="Worker processes.")] = 2,
    as_json: AsJson = False,
    seed: Seed = 0,
) -> None:
    """Fail every known bug and pass every control, on this machine; exit 1 where one is not."""
    result = _run(only=only, seed=seed, workers=workers, thorough=thorough)
    if as_json:
        say_json(_as_json(result))
    else:
        say_records([_line(row, thorough=thorough) for row in result.rows])
        for row in result.rows:
            if not row.right:
                say(f"{row.name}: {row.note}")
        say(result.summary)
    raise typer.Exit(1 if result.wrong else 0)


def _run(**settings: Any) -> SelftestResult:
    from specverify.selftest.run import selftest as run_selftest

    with progress() as show:

        def tell(done: int, total: int, row: Row) -> None:
            show("selftest", done, total, row.name if row.right else f"{row.name}: wrong")

        return run_selftest(progress=tell, **settings)


def _as_json(result: SelftestResult) -> dict[str, Any]:
    import msgspec

    record: dict[str, Any] = msgspec.to_builtins(result)
    return record | {"wrong": list(result.wrong), "summary": result.summary}


def _line(row: Row, *, thorough: bool) -> dict[str, Any]:
    import msgspec

    record = {k: v for k, v in msgspec.structs.asdict(row).items() if k not in _LEFT_OUT}
    if not thorough:
        del record["large_vocab_median"]
    for key in ("median", "oracle", "fixed_n"):
        record[key] = None if record[key] is None else round(record[key])
    return record
