"""Sweeps: the same rows in one process, in many, after a kill, and on a cluster that loses one."""

from __future__ import annotations

import json
import os
import signal
import sys
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from specverify.errors import InvalidInputError, MissingDependencyError
from specverify.simulate.executors import sweep_executor
from specverify.simulate.simulation import setting_row
from specverify.simulate.sweeps import grid, point_generator, run_sweep

POINTS = grid(
    {"alpha": [0.5, 0.8], "process": ["constant", "markov"], "gamma": [1, 3], "runs": [9]}
)
SEED = 11


def rows(**options: Any) -> list[dict[str, Any]]:
    return run_sweep(setting_row, POINTS, seed=SEED, chunk=3, **options)


class Backwards(Executor):
    """Runs what it was given in reverse order."""

    def submit(self, function, /, *arguments, **named):
        future: Future = Future()
        self.__dict__.setdefault("jobs", []).append((future, function, arguments))
        if len(self.jobs) == 3:  # all chunks of POINTS
            for job, task, given in reversed(self.jobs):
                job.set_result(task(*given))
        return future


class Breaks(Executor):
    """Fails after the first chunk."""

    def submit(self, function, /, *arguments, **named):
        future: Future = Future()
        if self.__dict__.setdefault("done", False):
            future.set_exception(RuntimeError("worker lost"))
        else:
            self.done = True
            future.set_result(function(*arguments))
        return future


def test_a_grid_is_the_product_of_its_axes() -> None:
    assert grid({"a": [1, 2], "b": "xy"}) == [
        {"a": 1, "b": "x"},
        {"a": 1, "b": "y"},
        {"a": 2, "b": "x"},
        {"a": 2, "b": "y"},
    ]


def test_a_point_draws_from_the_spawned_child_of_its_index() -> None:
    children = np.random.SeedSequence(SEED).spawn(4)
    expected = np.random.default_rng(children[3]).random(3)
    np.testing.assert_array_equal(point_generator(SEED, 3).random(3), expected)


def test_rows_depend_on_neither_executor_nor_chunk_nor_order() -> None:
    expected = rows()
    assert [row["alpha"] for row in expected] == [point["alpha"] for point in POINTS]
    assert rows(executor=Backwards()) == expected
    assert run_sweep(setting_row, POINTS, seed=SEED, chunk=1) == expected
    with ThreadPoolExecutor(2) as pool:
        assert rows(executor=pool) == expected
    assert run_sweep(setting_row, POINTS, seed=SEED + 1) != expected  # the negative control


def test_processes_give_the_same_rows() -> None:
    with sweep_executor("processes", workers=2) as pool:
        assert rows(executor=pool) == rows()


def test_a_broken_sweep_goes_on_where_it_stopped(tmp_path) -> None:
    ledger = tmp_path / "deep" / "sweep.jsonl"
    with pytest.raises(RuntimeError, match="worker lost"):
        rows(executor=Breaks(), ledger=ledger)
    finished = ledger.read_bytes()
    ledger.write_bytes(finished + b'{"index": 3, "ro')  # a kill in the middle of a line
    told: list[tuple[int, int]] = []
    assert rows(ledger=ledger, progress=lambda *state: told.append(state)) == rows()
    assert told == [(3, 8), (6, 8), (8, 8)]
    whole = ledger.read_bytes()
    assert whole.startswith(finished)
    assert len(whole.splitlines()) == 1 + len(POINTS)
    assert rows(ledger=ledger, executor=Breaks()) == rows()  # nothing is left to run
    assert ledger.read_bytes() == whole


def test_what_the_ledger_says_is_believed(tmp_path) -> None:
    """The negative control of resumption: a doctored row shows that finished points are not run."""
    ledger = tmp_path / "sweep.jsonl"
    rows(ledger=ledger)
    lines = ledger.read_text().splitlines()
    entry = json.loads(lines[1])
    entry["row"]["speedup"] = -1.0
    ledger.write_text("\n".join([lines[0], json.dumps(entry), *lines[2:]]) + "\n")
    assert rows(ledger=ledger)[entry["index"]]["speedup"] == -1.0


@pytest.mark.parametrize("change", [{"seed": 12}, {"points": POINTS[:-1]}])
def test_a_ledger_of_another_sweep_is_refused(change, tmp_path) -> None:
    ledger = tmp_path / "sweep.jsonl"
    rows(ledger=ledger)
    before = ledger.read_bytes()
    other = {"points": POINTS, "seed": SEED} | change
    with pytest.raises(InvalidInputError, match=r"ledger: .* belongs to another sweep"):
        run_sweep(setting_row, ledger=ledger, **other)
    assert ledger.read_bytes() == before


def test_a_file_that_is_no_ledger_is_left_alone(tmp_path) -> None:
    other = tmp_path / "notes.txt"
    other.write_text("dear diary\n")
    with pytest.raises(InvalidInputError, match="is not a sweep's ledger"):
        rows(ledger=other)
    assert other.read_text() == "dear diary\n"


def test_an_unknown_executor_is_named() -> None:
    with (
        pytest.raises(InvalidInputError, match="executor: must be one of processes, dask, none"),
        sweep_executor("abacus"),
    ):
        pass


def gated_row(point: Any, generator: np.random.Generator) -> dict[str, Any]:
    """Some points wait until the test opens a gate."""
    if point["gated"]:
        from distributed import Event

        Event("gate").wait()
    return {"pid": os.getpid(), **setting_row({"runs": 5, "alpha": point["alpha"]}, generator)}


def without_pid(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{key: value for key, value in row.items() if key != "pid"} for row in found]


def test_a_dask_cluster_loses_a_worker_in_mid_sweep() -> None:
    """A real scheduler with two workers in processes of their own; one is killed while it works."""
    from distributed import Client, Event, LocalCluster

    alphas = np.linspace(0.1, 0.9, 12).round(3).tolist()
    points = [{"alpha": a, "gated": i % 2} for i, a in enumerate(alphas)]
    expected = run_sweep(gated_row, [{**p, "gated": 0} for p in points], seed=SEED)
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        Client(cluster) as client,
        sweep_executor("dask", scheduler=cluster.scheduler_address) as pool,
    ):
        pids, gate = list(client.run(os.getpid).values()), Event("gate", client=client)
        assert len({*pids, os.getpid()}) == 3

        def kill(done: int, total: int) -> None:
            if done >= 1 and not gate.is_set():  # both workers have points that wait
                os.kill(pids[0], signal.SIGKILL)
                gate.set()

        found = run_sweep(gated_row, points, seed=SEED, chunk=1, executor=pool, progress=kill)
        assert gate.is_set()
        assert pids[0] not in client.run(os.getpid).values()
    assert os.getpid() not in {row["pid"] for row in found}
    assert without_pid(found) == without_pid(expected)


def test_a_scheduler_that_is_none_is_named() -> None:
    with (
        pytest.raises(InvalidInputError, match="scheduler: nonsense does not answer"),
        sweep_executor("dask", scheduler="nonsense"),
    ):
        pass


def test_without_dask_the_extra_is_named(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with (
        pytest.raises(MissingDependencyError, match=r"specdec-verify\[dask\]"),
        sweep_executor("dask"),
    ):
        pass
