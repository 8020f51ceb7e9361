"""How fast the simulator is on this machine: bulk rounds, hidden states with jitter, a sweep.

A plain Python loop over accept tests, as document B has it, is timed beside it.

Usage: python simulations/simulator_speed.py [--quick] [OUTPUT.json]
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from specverify.simulate.acceptance import AcceptanceProcess, ConstantAcceptance
from specverify.simulate.executors import sweep_executor
from specverify.simulate.markov import MarkovAcceptance
from specverify.simulate.policies import FixedGamma
from specverify.simulate.rounds import simulate_runs
from specverify.simulate.simulation import setting_row
from specverify.simulate.stopping import AtRounds, AtTokens, StopRule
from specverify.simulate.study import Study, study_main
from specverify.simulate.sweeps import grid, run_sweep
from specverify.simulate.timing import JitterTiming

SEED, GAMMA, REPEATS, WORKERS = 58, 4, 5, 2
TEXT = MarkovAcceptance([0.9, 0.3], [[0.95, 0.05], [0.1, 0.9]])
COLUMNS = {
    "what": "what was run; rounds have 4 drafts and gamma-distributed times",
    "amount": "how many rounds or points",
    "seconds": "CPU of one thread, least of 5; the sweep: once, CPU of 2 processes over 2",
    "per_second": "rounds or points a second",
}


def row(what: str, amount: int, seconds: float) -> dict[str, Any]:
    return {"what": what, "amount": amount, "seconds": seconds, "per_second": amount / seconds}


def rounds_row(
    what: str, process: AcceptanceProcess, stop: StopRule, *, runs: int
) -> dict[str, Any]:
    times, amounts = [], []
    for number in range(REPEATS):
        rng, start = np.random.default_rng([SEED, number]), time.thread_time()
        found = simulate_runs(
            process,
            FixedGamma(GAMMA),
            JitterTiming(0.1, 1.0, 0.2),
            stop,
            runs=runs,
            generator=rng,
        )
        times.append(time.thread_time() - start)
        amounts.append(int(found.rounds.sum()))
    best = int(np.argmin(times))
    return row(what, amounts[best], times[best])


def plain_loop(rounds: int) -> float:
    """Seconds of one accept test at a time."""
    rng, start, tokens = np.random.default_rng(SEED), time.thread_time(), 0
    for _ in range(rounds):
        for _ in range(GAMMA):
            tokens += 1
            if rng.random() >= 0.8:
                break
    return time.thread_time() - start


def sweep_seconds(points: int) -> float:
    axes = {"alpha": np.linspace(0.05, 0.95, points // 100).tolist(), "gamma": range(1, 11)}
    cells = grid({**axes, "c": np.linspace(0.02, 0.5, 10).tolist()})
    before = children_seconds()
    with sweep_executor("processes", workers=WORKERS) as pool:
        run_sweep(setting_row, cells, seed=SEED, executor=pool)
    return (children_seconds() - before) / WORKERS


def children_seconds() -> float:
    """CPU seconds of ended child processes, which other programs do not disturb."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def make(quick: bool) -> Study:
    points, loop = (200, 1000) if quick else (10_000, 200_000)
    long, short = (1000, AtTokens(1000)), (10_000, AtTokens(100))
    jobs: list[Callable[[], dict[str, Any]]] = [
        lambda: rounds_row("constant alpha", ConstantAcceptance(0.8), AtRounds(10**8), runs=10),
        lambda: rounds_row("hidden states, 1000 rounds a run", TEXT, AtRounds(1000), runs=1000),
        lambda: rounds_row("hidden states, 1000 tokens a run", TEXT, long[1], runs=long[0]),
        lambda: rounds_row("hidden states, 100 tokens a run", TEXT, short[1], runs=short[0]),
        lambda: row("plain loop, one round at a time", loop, plain_loop(loop)),
        lambda: row("sweep of 1000 runs of 100 tokens a point", points, sweep_seconds(points)),
    ]
    return Study(
        title="speed of the simulator",
        parameters={"seed": SEED, "gamma": GAMMA, "sweep_workers": WORKERS},
        columns=COLUMNS,
        rows=[job() for job in jobs],
    )


if __name__ == "__main__":
    study_main(__file__, make)
