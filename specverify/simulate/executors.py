"""Where a sweep runs: in this process, in processes of this machine, or on a dask cluster."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager

from specverify.errors import InvalidInputError, MissingDependencyError
from specverify.theory.validation import checked_count

__all__ = ["EXECUTORS", "sweep_executor"]

EXECUTORS = ("processes", "dask", "none")


@contextmanager
def sweep_executor(
    kind: str = "processes", *, workers: int | None = None, scheduler: str | None = None
) -> Iterator[Executor | None]:
    """Give an executor, and let go of it afterwards.

    Args:
        kind: ``processes`` of this machine; ``dask``, whose workers have this package installed;
            ``none``, this process.
        workers: Number of processes; as many as there are cores by default.
        scheduler: Address of the dask scheduler, e.g. ``tcp://host:8786``; a cluster on this
            machine is started without one.

    Yields:
        What :func:`specverify.simulate.sweeps.run_sweep` takes.

    Raises:
        InvalidInputError: If there is no such kind, or the scheduler does not answer.
        MissingDependencyError: If dask is needed and not installed.
    """
    if workers is not None:
        checked_count("workers", workers)
    if kind == "none":
        yield None
    elif kind == "processes":
        # A fork of a process with threads (progress bars, BLAS) may hang.
        with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
            yield pool
    elif kind == "dask":
        with _dask(workers, scheduler) as pool:
            yield pool
    else:
        raise InvalidInputError("executor", f"must be one of {', '.join(EXECUTORS)}; got {kind!r}")


@contextmanager
def _dask(workers: int | None, scheduler: str | None) -> Iterator[Executor]:
    try:
        from distributed import Client
    except ImportError as error:
        raise MissingDependencyError("distributed", "dask") from error
    options = {"n_workers": workers, "threads_per_worker": 1, "dashboard_address": None}
    try:
        client = Client(scheduler) if scheduler else Client(**options)
    except (OSError, ValueError) as error:
        raise InvalidInputError("scheduler", f"{scheduler} does not answer: {error}") from error
    # A worker that dies takes its points along; the scheduler gives them to another one.
    with client, client.get_executor() as pool:
        yield pool
