"""Fresh processes: start-up, whole audits on the command line, and peak memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from specverify.bench.timing import Asked, Job, Measurement, Size, Spread, alternate

__all__ = ["memory", "start_up", "verdicts"]

_FORBIDS_BYTE_CODE = "PYTHONDONTWRITEBYTECODE"
VERIFIERS = Path(__file__).with_name("verifiers.py")


def start_up(size: Size) -> Iterator[Measurement]:
    """Seconds of the wall from the start of a process to its end."""
    commands = {
        "specverify --help": ([sys.executable, "-m", "specverify", "--help"], 0.4),
        "import specverify": ([sys.executable, "-c", "import specverify"], 0.25),
        "python alone": ([sys.executable, "-c", "pass"], None),
    }
    jobs = {name: _process(command) for name, (command, _) in commands.items()}
    sides = {
        name: Spread.of(values)
        for name, values in alternate(jobs, size.runs, clock=time.perf_counter).items()
    }
    yield Measurement(
        what="fresh processes",
        unit="s",
        sides=sides,
        asked=[
            _under(name, sides[name].median, mark)
            for name, (_, mark) in commands.items()
            if mark is not None
        ],
        note=_work(jobs, size),
    )


def verdicts(size: Size) -> Iterator[Measurement]:
    """Seconds of the wall of whole audits through the command line."""
    short = ["--mode", "statistical", "--budget", "20", "--gamma", "1"] if size.quick else []
    marks = {"right": 20.0, "planted": 3.0}
    jobs = {
        name: _process([sys.executable, "-m", "specverify", "audit", f"{VERIFIERS}:{name}", *short])
        for name in marks
    }
    found = alternate(jobs, 1 if size.quick else size.runs, clock=time.perf_counter)
    sides = {name: Spread.of(values) for name, values in found.items()}
    yield Measurement(
        what=f"specverify audit verifiers.py:NAME {' '.join(short)}".rstrip(),
        unit="s to the verdict",
        sides=sides,
        asked=[
            _under(f"verdict on `{name}`", sides[name].median, mark)
            for name, mark in marks.items()
            if not size.quick
        ],
        note=f"two workers; {_work(jobs, size)}",
    )


def memory(size: Size) -> Iterator[Measurement]:
    """Peak resident memory of a process that audits at V = 50257, by calls of it."""
    # Smaller budgets end before the large vocabulary is reached.
    budgets = (20, 1000) if size.quick else (20_000, 40_000, 80_000)
    found = [_peak(calls) for calls in budgets]
    gigabytes = [one["bytes"] / 1e9 for one in found]
    worst, growth = max(gigabytes), gigabytes[-1] / gigabytes[0] - 1
    more = found[-1]["calls"] / found[0]["calls"]
    yield Measurement(
        what="audit of `right` at V = 50257, gamma 1, statistical, in one process",
        unit="GB at most",
        sides={
            f"{one['calls']:,} calls": Spread.of([peak])
            for one, peak in zip(found, gigabytes, strict=True)
        },
        asked=[
            Asked("peak memory: under 1.5 GB", f"{worst:.2f} GB", worst < 1.5),
            Asked(
                "peak memory flat in the number of samples: within 10 %",
                f"{growth:+.1%} with {more:.0f} times as many",
                abs(growth) <= 0.1,
            ),
        ],
    )


def _peak(calls: int) -> dict[str, int]:
    command = [sys.executable, "-m", "specverify.bench.peak", f"{VERIFIERS}:right", str(calls)]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found: dict[str, int] = json.loads(said)
    return found


def _under(name: str, seconds: float, mark: float) -> Asked:
    return Asked(f"{name}: under {mark:g} s", f"{seconds:.2f} s", seconds < mark)


def _work(jobs: Mapping[str, Job], size: Size) -> str:
    """What the processes cost where nothing else runs; on a busy machine the wall says more."""
    seconds = alternate(jobs, 1 if size.quick else 3, clock=_processes_clock)
    medians = (f"{name} {Spread.of(values).median:.2f}" for name, values in seconds.items())
    return f"CPU seconds of all processes: {', '.join(medians)}"


def _processes_clock() -> float:
    """CPU seconds of the processes that this one has started and that have ended."""
    spent = os.times()
    return spent.children_user + spent.children_system


@cache
def _byte_code() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="specverify-bench-")


def _environment() -> dict[str, str]:
    """As usual; byte code, which every python keeps from its first run on, is kept in any case."""
    kept = {name: value for name, value in os.environ.items() if name != _FORBIDS_BYTE_CODE}
    return kept if kept == os.environ else kept | {"PYTHONPYCACHEPREFIX": _byte_code().name}


def _process(command: list[str]) -> Job:
    def run() -> None:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, env=_environment()
        )
        # 1 is a failing check and 3 an open verdict, which are results.
        if done.returncode not in (0, 1, 3):
            raise RuntimeError(f"{' '.join(command)}: {done.stderr}")

    return run
