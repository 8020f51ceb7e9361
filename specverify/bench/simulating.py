"""Simulated rounds a second: ours, document B's loop, and plain numpy."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from specverify.bench.peak import peak_bytes
from specverify.bench.timing import Job, Measurement, Size, Spread, alternate, ratio
from specverify.simulate.acceptance import ConstantAcceptance
from specverify.simulate.policies import FixedGamma
from specverify.simulate.rounds import simulate_runs
from specverify.simulate.stopping import AtRounds
from specverify.simulate.timing import ConstantTiming

__all__ = ["simulation"]

ALPHA, GAMMA = 0.8, 4


def simulation(size: Size) -> Iterator[Measurement]:
    """Rounds a second of one thread: four drafts a round, constant acceptance rate."""
    rng = np.random.default_rng(0)
    ours, numpy_rounds, loop = (10**4, 10**4, 100) if size.quick else (10**9, 10**6, 20_000)
    jobs: dict[str, Job] = {
        "ours": lambda: _ours(ours, rng),
        "plain numpy": lambda: plain_numpy(numpy_rounds, rng),
        "document B's loop": lambda: document_b_loop(loop, rng),
    }
    rounds = dict(zip(jobs, (ours, numpy_rounds, loop), strict=True))
    seconds = alternate(jobs, size.runs)
    pace = {name: [rounds[name] / s for s in values] for name, values in seconds.items()}
    yield Measurement(
        what=f"alpha {ALPHA}, gamma {GAMMA}; ours simulates {ours:.0e} rounds at a time",
        unit="rounds/s",
        sides={name: Spread.of(values) for name, values in pace.items()},
        ratios={f"ours over {other}": ratio(pace["ours"], pace[other]) for other in list(jobs)[1:]},
        note=f"peak memory of this whole process so far {peak_bytes() / 1e9:.2f} GB",
    )


def _ours(rounds: int, rng: np.random.Generator) -> None:
    simulate_runs(
        ConstantAcceptance(ALPHA),
        FixedGamma(GAMMA),
        ConstantTiming(0.1, 1.0),
        AtRounds(rounds),
        runs=1,
        generator=rng,
    )


def plain_numpy(rounds: int, rng: np.random.Generator) -> int:
    """Accepted tokens, every accept test drawn in one array."""
    passed = rng.random((rounds, GAMMA)) < ALPHA
    return int(np.cumprod(passed, axis=1).sum())


def document_b_loop(rounds: int, rng: np.random.Generator) -> int:
    """Accepted tokens, one accept test at a time as document B has it."""
    accepted = 0
    for _ in range(rounds):
        for _ in range(GAMMA):
            if rng.random() >= ALPHA:
                break
            accepted += 1
    return accepted
