"""How decoding's cost grows with the sequences side by side and with the drafted tokens."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from functools import partial

import numpy as np

from specverify.bench.timing import Job, Measurement, Size, Spread, alternate, exponent, ratio
from specverify.models.measure import PROMPTS, PairMeasurement, measure_pair
from specverify.models.pairs import Pair
from specverify.sampler.cached import decode_cached, decode_plain_cached
from specverify.sampler.cached_batch import decode_cached_batch

__all__ = ["against_batch", "against_gamma", "predicted"]

GAMMA = 4


def against_batch(pair: Pair, size: Size) -> Measurement:
    """Sequences that accept unequally, side by side and one by one."""
    batches = (2, 4) if size.quick else (1, 2, 4, 8, 16)
    length = 8 if size.quick else 48
    jobs: dict[str, Job] = {}
    for batch in batches:
        jobs[f"{batch} one by one"] = partial(_one_by_one, pair, batch, length)
        jobs[f"{batch} side by side"] = partial(_side_by_side, pair, batch, length)
    seconds = alternate(jobs, size.runs)
    together = [statistics.median(seconds[f"{batch} side by side"]) for batch in batches]
    return Measurement(
        what=f"shipped pair, many sequences, one thread, gamma {GAMMA}, temperature 1",
        unit="tokens/s",
        sides={
            name: Spread.of([int(name.split()[0]) * length / each for each in values])
            for name, values in seconds.items()
        },
        ratios={
            f"{batch}: side by side over one by one": ratio(
                seconds[f"{batch} one by one"], seconds[f"{batch} side by side"]
            )
            for batch in batches
        },
        note=f"seconds against sequences: fitted exponent {exponent(batches, together):.2f}; in"
        " theory from 0, while a pass costs what reading the weights costs, to 1",
    )


def against_gamma(pair: Pair, starts: Sequence[Sequence[int]], size: Size) -> Measurement:
    """Cost of a pass, and speedup over plain decoding beside what costs and alpha predict."""
    gammas = (1, 2) if size.quick else (1, 2, 3, 4, 5, 8)
    length = 12 if size.quick else 64
    passes = dict.fromkeys(gammas, 0)
    calls = dict.fromkeys(gammas, 0)

    def decode(gamma: int) -> None:
        rng = np.random.default_rng(calls[gamma])
        calls[gamma] += 1
        for start in starts:
            _, trace = decode_cached(
                pair.target, pair.draft, start, gamma=gamma, max_new_tokens=length, generator=rng
            )
            passes[gamma] += trace.passes

    def plain() -> None:
        for start in starts:
            decode_plain_cached(pair.target, start, max_new_tokens=length)

    jobs: dict[str, Job] = {"plain": plain}
    jobs |= {f"gamma {gamma}": partial(decode, gamma) for gamma in gammas}
    seconds = alternate(jobs, size.runs)
    per_pass = [
        statistics.median(seconds[f"gamma {gamma}"]) * calls[gamma] / passes[gamma]
        for gamma in gammas
    ]
    found = [predicted(pair, gamma, size) for gamma in gammas]
    costs = [each.costs.pass_cost(each.gamma) for each in found]
    expected = ", ".join(f"gamma {each.gamma}: {each.predicted_speedup:.2f}x" for each in found)
    tokens = length * len(starts)
    return Measurement(
        what="shipped pair, one sequence, one thread, temperature 1, by gamma",
        unit="tokens/s",
        sides={name: Spread.of([tokens / each for each in seconds[name]]) for name in jobs},
        ratios={
            f"gamma {gamma} over plain": ratio(seconds["plain"], seconds[f"gamma {gamma}"])
            for gamma in gammas
        },
        note=f"predicted over plain: {expected}; a pass's cost against gamma: fitted exponent"
        f" {exponent(gammas, per_pass):.2f}, by gamma c + v {exponent(gammas, costs):.2f}",
    )


def predicted(pair: Pair, gamma: int, size: Size) -> PairMeasurement:
    """The pair at one gamma: alpha, costs of single calls, and what they predict."""
    prompts = _prompts(pair, 2 if size.quick else len(PROMPTS))
    length = 12 if size.quick else 64
    return measure_pair(pair, gamma=gamma, prompts=prompts, max_new_tokens=length, rounds=1)


def _prompts(pair: Pair, batch: int) -> list[list[int]]:
    assert pair.tokenizer is not None
    return [pair.tokenizer.encode(PROMPTS[row % len(PROMPTS)]) for row in range(batch)]


def _generators(batch: int) -> list[np.random.Generator]:
    return [np.random.default_rng(seed) for seed in np.random.SeedSequence(0).spawn(batch)]


def _one_by_one(pair: Pair, batch: int, length: int) -> None:
    for start, rng in zip(_prompts(pair, batch), _generators(batch), strict=True):
        decode_cached(
            pair.target, pair.draft, start, gamma=GAMMA, max_new_tokens=length, generator=rng
        )


def _side_by_side(pair: Pair, batch: int, length: int) -> None:
    decode_cached_batch(
        pair.target,
        pair.draft,
        _prompts(pair, batch),
        gamma=GAMMA,
        max_new_tokens=length,
        generators=_generators(batch),
    )
