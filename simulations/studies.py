"""What the statistical studies share: seeds, processes, resuming by study, and their reports."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

REPORTS = Path(__file__).resolve().parent.parent / "reports"
CHUNKS = 8  # of a study's runs, each with a seed of its own
Rows: TypeAlias = list[dict[str, Any]]
Asked: TypeAlias = list[tuple[str, str, bool]]


@dataclass(frozen=True)
class Setting:
    """How a study runs: quickly or in full, in how many processes, from which seed."""

    quick: bool
    workers: int
    seed: np.random.SeedSequence

    def rng(self) -> np.random.Generator:
        """Source of what is common to all tasks."""
        return np.random.default_rng(self.seed)

    def each(
        self, job: Callable[[Any, np.random.Generator], Any], tasks: Sequence[Any]
    ) -> list[Any]:
        """``job(task, rng)`` of every task in order, each with a generator of its own."""
        seeded = list(zip(tasks, self.seed.spawn(len(tasks)), strict=True))
        if self.workers == 1:
            return [_do(job, task) for task in seeded]
        with multiprocessing.get_context("fork").Pool(self.workers, _keep, (job,)) as pool:
            return pool.map(_do_kept, seeded, chunksize=1)

    def spread(self, job: Callable[[int, np.random.Generator], Any], runs: int) -> list[Any]:
        """``job(runs of the chunk, rng)`` of every chunk, in order."""
        return self.each(job, [len(part) for part in np.array_split(np.arange(runs), CHUNKS)])


# A forked process finds here what need not, or cannot, be pickled.
_JOBS: list[Any] = []


def _keep(job: Any) -> None:
    _JOBS.append(job)


def _do_kept(task: tuple[Any, np.random.SeedSequence]) -> Any:
    return _do(_JOBS[-1], task)


def _do(job: Any, task: tuple[Any, np.random.SeedSequence]) -> Any:
    return job(task[0], np.random.default_rng(task[1]))


@dataclass(frozen=True)
class Report:
    """A script's studies and what was asked of them.

    Attributes:
        name: Name of the script and of its report.
        about: The script's docstring.
        seed: Seed of all its studies; each has a child of its own.
        studies: Functions from a ``Setting`` to rows.
        asked: What was asked, what was measured and whether that is enough, from the content.
        facts: Further entries of the report.
        afresh: How often a study was begun on new draws because what it measures was changed after
            its results had been seen.
    """

    name: str
    about: str
    seed: int
    studies: tuple[Callable[[Setting], Rows], ...]
    asked: Callable[[Mapping[str, Any]], Asked]
    facts: Mapping[str, Any]
    afresh: Mapping[str, int] = field(default_factory=dict)

    def main(self, arguments: list[str] | None = None) -> None:
        """Run the studies that the command line names."""
        options = self._options(arguments)
        default = None if options.quick else REPORTS / f"{self.name}.json"
        output = options.output or default
        for number, study in enumerate(self.studies):
            seed = self._seed_of(number)
            if options.study in (None, study.__name__):
                begin = time.perf_counter()
                rows = study(Setting(options.quick, options.workers, seed))
                seconds = round(time.perf_counter() - begin, 1)
                _show(study.__name__, rows, seconds)
                if output is not None:
                    merge = partial(self._merged, name=study.__name__, rows=rows, seconds=seconds)
                    self._write(output, merge, options.quick)

    def markdown(self, content: Mapping[str, Any]) -> str:
        """What was asked beside what was measured, then every study's table."""
        lines = [f"# {self.name.capitalize()}", ""]
        lines += [f"Written by `python simulations/{self.name}.py`.", ""]
        lines += [self.about.split("\n\n")[1], ""]
        verdicts = [(a, m, "yes" if ok else "NO") for a, m, ok in self.asked(content)]
        lines += table([("asked", "measured", "holds"), *verdicts])
        for study in self.studies:
            rows = content.get(study.__name__, [])
            if rows:
                about = " ".join((study.__doc__ or "").split())
                command = f"python simulations/{self.name}.py --study {study.__name__}"
                lines += ["", f"## {study.__name__}", "", about, ""]
                lines += [f"`{command}`, seed {content['seed']}{self._draw(study.__name__)}", ""]
                lines += table([tuple(rows[0]), *(tuple(map(cell, row.values())) for row in rows)])
        return "\n".join(lines) + "\n"

    def _seed_of(self, number: int) -> np.random.SeedSequence:
        again = self.afresh.get(self.studies[number].__name__)
        key = (number,) if again is None else (number, again)
        return np.random.SeedSequence(self.seed, spawn_key=key)

    def _draw(self, study: str) -> str:
        return f", draw {self.afresh[study] + 1}" if study in self.afresh else ""

    def _merged(
        self, content: dict[str, Any], *, name: str, rows: Rows, seconds: float
    ) -> dict[str, Any]:
        spent = {**content.get("seconds", {}), name: seconds}
        return {**content, "seconds": spent, name: rows}

    def _write(self, output: Path, merge: Callable[..., dict[str, Any]], quick: bool) -> None:
        """Put a study's rows beside the studies that are there."""
        command = f"python simulations/{self.name}.py"
        facts = {"study": self.name, "command": command, "quick": quick, "seed": self.seed}
        facts |= self.facts
        there = json.loads(output.read_text()) if output.exists() else {}
        content = merge({**there, **facts})
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(json.dumps(content, indent=1) + "\n")
        output.with_suffix(".md").write_text(self.markdown(content))

    def _options(self, arguments: list[str] | None) -> argparse.Namespace:
        parser = argparse.ArgumentParser(description=self.about.split("\n")[0])
        parser.add_argument(
            "output", nargs="?", type=Path, help=f"reports/{self.name}.json by default"
        )
        parser.add_argument("--quick", action="store_true", help="few runs, no report by default")
        names = [study.__name__ for study in self.studies]
        parser.add_argument("--study", choices=names, help="redo one, keep the report's others")
        parser.add_argument("--workers", type=int, default=1, help="processes; changes no result")
        return parser.parse_args(arguments)


def _show(name: str, rows: Rows, seconds: float) -> None:
    print(name, f"{seconds} s", flush=True)
    for row in rows:
        print("  ", {key: cell(value) for key, value in row.items()}, flush=True)


def table(lines: Sequence[tuple[str, ...]]) -> list[str]:
    """Markdown table; the first line is its head."""
    if not lines:
        return []
    written = ["| " + " | ".join(line) + " |" for line in lines]
    return [written[0], "|---" * len(lines[0]) + "|", *written[1:]]


def cell(value: Any) -> str:
    """A value, or a median with its bounds."""
    if isinstance(value, dict):
        return f"{value['median']:,} ({value['low']:,} to {value['high']:,})"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
