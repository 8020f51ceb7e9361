"""``specverify simulate``: rounds and times of speculative decoding, one setting or a grid."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from specverify.cli.logs import read_text
from specverify.cli.options import AsJson, Seed, axis_values
from specverify.cli.progress import progress
from specverify.cli.shell import note, say, say_json, say_records, writable_file, write_file
from specverify.errors import InvalidInputError

__all__ = ["simulate"]

_SHOWN = 40


Alpha: TypeAlias = Annotated[
    str, typer.Option(help="Acceptance rates: 0.8, a grid 0.7,0.8, or by position 0.9/0.8/0.7.")
]
Gamma: TypeAlias = Annotated[str, typer.Option(help="Drafted tokens a pass: 4, 1,2,4 or 1-10.")]
Cost: TypeAlias = Annotated[
    str, typer.Option("--c", help="Costs of a draft step over that of a target step.")
]
Process: TypeAlias = Annotated[
    str, typer.Option(help="How alpha varies: constant, beta, beta-token, markov, trace.")
]
Policy: TypeAlias = Annotated[
    str, typer.Option(help="Draft length: fixed, schedule, threshold, optimal.")
]
Timing: TypeAlias = Annotated[
    str, typer.Option(help="Times: constant, gamma, lognormal (jitter), roofline.")
]
Stop: TypeAlias = Annotated[str, typer.Option(help="What ends a run: tokens, rounds, eos.")]
Length: TypeAlias = Annotated[str, typer.Option(help="Tokens or rounds of a run.")]
Runs: TypeAlias = Annotated[str, typer.Option(help="Independent runs.")]
Trace: TypeAlias = Annotated[
    str | None,
    typer.Option(help="Replay rounds: a JSON list of accepted counts, or a detailed answer."),
]
More: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUES", help="Any other parameter; may be repeated."),
]
Executor: TypeAlias = Annotated[
    str | None,
    typer.Option(help="processes, dask or none; a grid of more than 50 points: processes."),
]
Workers: TypeAlias = Annotated[int | None, typer.Option(min=1, help="Worker processes.")]
Scheduler: TypeAlias = Annotated[
    str | None, typer.Option(help="Address of a dask scheduler, e.g. tcp://host:8786.")
]
Resume: TypeAlias = Annotated[
    Path | None, typer.Option(help="Keep finished points in this file, and go on from it.")
]
Out: TypeAlias = Annotated[Path | None, typer.Option(help="Write the JSON here, too.")]


def simulate(
    alpha: Alpha = "0.8",
    gamma: Gamma = "4",
    cost: Cost = "0.1",
    process: Process = "constant",
    policy: Policy = "fixed",
    timing: Timing = "constant",
    stop: Stop = "tokens",
    length: Length = "100",
    runs: Runs = "1000",
    trace: Trace = None,
    more: More = None,
    executor: Executor = None,
    workers: Workers = None,
    scheduler: Scheduler = None,
    resume: Resume = None,
    out: Out = None,
    as_json: AsJson = False,
    seed: Seed = 0,
) -> None:
    """Simulate rounds and times; several values of a parameter, or several parameters, are a grid.

    Parameters of --set: concentration, spread, stay, threshold, max_gamma, variation, verify_slope,
    batch, token_time, prefill, draft_prefill, overlap, bonus, hazard. Times are in plain target
    steps.
    """
    for option, path in (("--out", out), ("--resume", resume)):
        writable_file(option, path)
    texts = {
        "alpha": alpha,
        "gamma": gamma,
        "c": cost,
        "process": process,
        "policy": policy,
        "timing": timing,
        "stop": stop,
        "length": length,
        "runs": runs,
    } | dict(_assignment(text) for text in more or ())
    axes = _axes(texts)
    if trace is not None:
        axes |= {"process": ["trace"], "trace": [_recorded(trace)]}
    kind = executor or ("dask" if scheduler else None)
    where = {"kind": kind, "workers": workers, "scheduler": scheduler}
    content = {
        "seed": seed,
        "parameters": {name: values[0] for name, values in axes.items() if len(values) == 1},
        "rows": _rows(axes, seed, where, resume),
    }
    if out is not None:
        write_file("--out", out, json.dumps(content, indent=2, allow_nan=False) + "\n")
    if as_json:
        say_json(content)
    else:
        _show(content, [name for name, values in axes.items() if len(values) > 1])


def _assignment(text: str) -> tuple[str, str]:
    name, equals, values = text.partition("=")
    if not equals:
        raise InvalidInputError("--set", f"must be NAME=VALUES, got {text!r}")
    return name.strip().replace("-", "_"), values


def _axes(texts: dict[str, str]) -> dict[str, list[Any]]:
    from specverify.simulate.setting import Setting

    defaults = Setting().record()
    Setting.of({name: defaults.get(name) for name in texts})  # refuses an unknown name
    return {name: axis_values(name, text, defaults[name]) for name, text in texts.items()}


def _recorded(file: str) -> list[int]:
    """Accepted tokens by round, from a JSON list or an engine's answer that lists its steps."""
    from specverify.adapters.logs.fields import counts
    from specverify.adapters.logs.reading import read_records

    text = read_text(file)
    try:
        listed = counts(json.loads(text))
    except ValueError:
        listed = None
    if listed is None:
        try:
            listed = read_records(text)[0].step_accepted
        except InvalidInputError:
            listed = None
    if listed is None:
        raise InvalidInputError("--trace", f"{file} lists no accepted tokens by round")
    return list(listed)


def _rows(
    axes: dict[str, list[Any]], seed: int, where: dict[str, Any], resume: Path | None
) -> list[dict[str, Any]]:
    from specverify.simulate.executors import sweep_executor
    from specverify.simulate.setting import Setting
    from specverify.simulate.simulation import setting_row
    from specverify.simulate.sweeps import CHUNK, grid, run_sweep

    points = grid(axes)
    for point in points:
        Setting.of(point)  # a mistake is said before any work
    kind = where.pop("kind") or ("processes" if len(points) > CHUNK else "none")
    with progress() as show, sweep_executor(kind, **where) as pool:
        return run_sweep(
            setting_row,
            points,
            seed=seed,
            executor=pool,
            ledger=resume,
            progress=lambda done, total: show("simulating", done, total, f"{done}/{total} points"),
        )


def _show(content: dict[str, Any], varying: list[str]) -> None:
    common = {k: v for k, v in content["parameters"].items() if k not in (*varying, "trace")}
    say(", ".join(f"{name} {_text(value)}" for name, value in common.items()))
    say("")
    rows = content["rows"]
    say_records([_record(row, varying) for row in rows[:_SHOWN]])
    if len(rows) > _SHOWN:
        note(f"{len(rows) - _SHOWN} more rows: use --json or --out FILE")


def _record(row: dict[str, Any], varying: list[str]) -> dict[str, str]:
    return {name: _text(row[name]) for name in varying} | {
        "tokens/pass": _bounded(row, "tokens_per_pass"),
        "endless theory": _text(row["predicted_tokens_per_pass"]),
        "speedup": _bounded(row, "speedup"),
        "endless theory speedup": _text(row["predicted_speedup"]),
        "accepted/tested": f"{row['acceptance_rate']:.3f}",
        "accepted/drafted": f"{row['accepted_over_drafted']:.3f}",
        "time/token p50": f"{row['latency_p50']:.3f}",
        "p95": f"{row['latency_p95']:.3f}",
    }


def _bounded(row: dict[str, Any], name: str) -> str:
    if row[f"{name}_low"] is None:
        return f"{row[name]:.3f}"
    return f"{row[name]:.3f} [{row[f'{name}_low']:.3f}, {row[f'{name}_high']:.3f}]"


def _text(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, list):
        return "/".join(map(_text, value))
    return f"{value:.4g}" if isinstance(value, float) else str(value)
