"""Microseconds a verified block: ours in batches, the peers', a bare copy of what must be read."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

import torch

from specverify.bench.blocks import Cell, DrawnBlocks, copy_of_last_rows, verify_laws, verify_logits
from specverify.bench.timing import Asked, Job, Measurement, Size, Spread, alternate, ratio
from specverify.bench.verification_curves import curves
from specverify.bench.verification_peers import TRANSFORMERS, PeerJob, peers

__all__ = ["verification"]

MARKED = Cell(32_000, 256)
OURS, COPY = "ours", "copy of two rows"
LAWS, LOGITS = "from probabilities", "from logits"
_ASKED = {LAWS: 20.0, LOGITS: 3.0}  # of transformers' cost
_BLOCKS_A_RUN = 64  # at least: a few take too little time for a clock


def verification(size: Size) -> Iterator[Measurement]:
    """Every cell from probabilities and from logits, then what a call costs against each size."""
    cells, left_out = _cells(size)
    settings = [_Setting(cell, size) for cell in cells]
    settings.append(_Setting(cells[0] if size.quick else MARKED, size, threads=2))
    for setting in settings:
        with _threads(setting.threads):
            yield setting.from_probabilities()
            yield setting.from_logits()
    if left_out:
        yield Measurement(what="more than two gigabytes", unit="", sides={}, note=left_out)
    with _threads(1):
        yield from curves(size)


def _cells(size: Size) -> tuple[list[Cell], str]:
    """What is measured, and what is left out as too large."""
    if size.quick:
        cells = [Cell(50, 1), Cell(50, 8), Cell(5000, 8, double=True)]
    elif size.thorough:
        cells = [
            Cell(vocab, batch, double=double)
            for double in (False, True)
            for vocab in (1000, 32_000, 128_000)
            for batch in (1, 8, 64, 256, 1024)
        ]
    else:
        cells = [Cell(vocab, batch) for vocab in (1000, 32_000) for batch in (1, 256)]
        cells.append(Cell(32_000, 64, double=True))
    large = [f"{cell}: left out, {cell.bytes / 1e9:.1f} GB" for cell in cells if cell.too_large]
    return [cell for cell in cells if not cell.too_large], "; ".join(large)


class _Setting(NamedTuple):
    cell: Cell
    size: Size
    threads: int = 1

    def from_probabilities(self) -> Measurement:
        laws = DrawnBlocks.laws(self.cell)
        beside, missing = peers(DrawnBlocks.logits(self.cell.cut(32)), laws)
        jobs = {OURS: PeerJob(partial(verify_laws, laws), self.cell.batch)} | beside
        jobs[COPY] = PeerJob(copy_of_last_rows(laws), self.cell.batch)
        return self._measurement(LAWS, jobs, missing)

    def from_logits(self) -> Measurement:
        logits = DrawnBlocks.logits(self.cell)
        beside, missing = peers(logits)
        jobs = {OURS: PeerJob(partial(verify_logits, logits), self.cell.batch)} | beside
        return self._measurement(LOGITS, jobs, missing)

    def _measurement(self, source: str, jobs: Mapping[str, PeerJob], missing: str) -> Measurement:
        each = self._microseconds(jobs)
        ratios = {
            f"{name} over ours": ratio(each[name], each[OURS])
            for name in jobs
            if name not in (OURS, COPY)
        }
        if COPY in each:
            ratios["ours over the copy"] = ratio(each[OURS], each[COPY])
        wall = "" if self.threads == 1 else f", {self.threads} threads, by the wall's clock"
        marked = self.cell == MARKED and self.threads == 1
        return Measurement(
            what=f"{source}, {self.cell}{wall}",
            unit="us a block",
            sides={name: Spread.of(values) for name, values in each.items()},
            ratios=ratios,
            asked=_asked(source, ratios) if marked else (),
            note=missing,
        )

    def _microseconds(self, jobs: Mapping[str, PeerJob]) -> dict[str, list[float]]:
        """Microseconds a block in each run."""
        repeats = {name: -(-_BLOCKS_A_RUN // job.blocks) for name, job in jobs.items()}
        timed = {name: _repeated(job.run, repeats[name]) for name, job in jobs.items()}
        for name, job in jobs.items():
            if job.rest is not None:
                timed[f"{name}, rest"] = _repeated(job.rest, repeats[name])
        clock = time.thread_time if self.threads == 1 else time.perf_counter
        seconds = alternate(timed, self.size.runs, clock=clock)
        each = {}
        for name, job in jobs.items():
            rests = seconds.get(f"{name}, rest", [0.0] * self.size.runs)
            own = [run - rest for run, rest in zip(seconds[name], rests, strict=True)]
            each[name] = [1e6 * net / job.blocks / repeats[name] for net in own]
        return each


def _asked(source: str, ratios: Mapping[str, Spread]) -> list[Asked]:
    lines = []
    if f"{TRANSFORMERS} over ours" in ratios:
        found, mark = ratios[f"{TRANSFORMERS} over ours"].median, _ASKED[source]
        named = f"transformers over ours, {source}: at least {mark:g}x"
        lines.append(Asked(named, f"{found:.1f}x", found >= mark))
    if source == LAWS:
        copy = ratios["ours over the copy"].median
        lines.append(Asked("ours over the copy: at most 3x", f"{copy:.2f}x", copy <= 3))
    return lines


def _repeated(job: Job, times: int) -> Job:
    def run() -> None:
        for _ in range(times):
            job()

    return run


@contextmanager
def _threads(n: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(n)
    try:
        yield
    finally:
        torch.set_num_threads(before)
