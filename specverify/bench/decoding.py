"""Tokens a second of the shipped pair: our loops beside transformers' generation."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from specverify.bench.decoding_curves import against_batch, against_gamma, predicted
from specverify.bench.timing import (
    Asked,
    Clock,
    Job,
    Measurement,
    Size,
    Spread,
    alternate,
    ratio,
)
from specverify.errors import MissingDependencyError
from specverify.models.measure import PROMPTS
from specverify.models.pairs import Pair, load_pair
from specverify.models.threads import one_thread, torch_threads
from specverify.sampler.cached import decode_cached, decode_plain_cached
from specverify.warping import SamplingParams

__all__ = ["decoding"]

# What suits the shipped pair's costs on a host: a pass then reads four rows, which small products
# take at once. The curve by gamma stands beside it.
GAMMA = 3
FAST, PLAIN = "ours, speculative", "ours, plain"
ASSISTED, THEIRS = "transformers, assisted", "transformers, plain"
_MARKS = {"over transformers' assisted": 3.0, "over our plain decoding": 1.3}


def decoding(size: Size) -> Iterator[Measurement]:
    """Tokens a second at temperature 1: one sequence, one thread and two; many; and the curves."""
    pair = load_pair()
    assert pair.tokenizer is not None
    texts = PROMPTS[:1] if size.quick else PROMPTS[:4]
    starts = [pair.tokenizer.encode(text) for text in texts]
    length = 12 if size.quick else 64
    jobs, missing = _ours(pair, starts, length), ""
    try:
        jobs |= _theirs(starts, length)
    except MissingDependencyError as error:
        missing = f"{error}; "
    tokens = length * len(starts)
    with one_thread():
        seconds = alternate(jobs, size.runs)
        note = missing + _why(pair, size)
        yield _measurement("one thread", tokens, seconds, marks=_MARKS, note=note)
        yield against_batch(pair, size)
        yield against_gamma(pair, starts, size)
    with torch_threads(2):
        # The wall's clock: a thread's own would not see the second one.
        clock: Clock = time.perf_counter
        seconds = alternate(jobs, size.runs, clock=clock)
    note = missing + "by the wall; our short passes use one thread whatever the setting"
    yield _measurement("two threads", tokens, seconds, marks={}, note=note)


def _measurement(
    threads: str,
    tokens: int,
    seconds: Mapping[str, Sequence[float]],
    *,
    marks: Mapping[str, float],
    note: str,
) -> Measurement:
    names = {"over our plain decoding": PLAIN, "over transformers' assisted": ASSISTED}
    ratios = {
        name: ratio(seconds[other], seconds[FAST])
        for name, other in names.items()
        if other in seconds
    }
    return Measurement(
        what=f"shipped pair, one sequence, {threads}, gamma {GAMMA}, temperature 1",
        unit="tokens/s",
        sides={
            name: Spread.of([tokens / each for each in values]) for name, values in seconds.items()
        },
        ratios=ratios,
        asked=_asked(ratios, marks),
        note=note,
    )


def _asked(ratios: Mapping[str, Spread], marks: Mapping[str, float]) -> list[Asked]:
    return [
        Asked(
            f"our speculative decoding {name}: at least {mark:g}x",
            f"{ratios[name].median:.2f}x",
            ratios[name].median >= mark,
        )
        for name, mark in marks.items()
        if name in ratios
    ]


def _ours(pair: Pair, starts: list[list[int]], length: int) -> dict[str, Job]:
    rng = np.random.default_rng(0)

    def fast() -> None:
        for start in starts:
            decode_cached(
                pair.target, pair.draft, start, gamma=GAMMA, max_new_tokens=length, generator=rng
            )

    def plain() -> None:
        for start in starts:
            decode_plain_cached(pair.target, start, max_new_tokens=length, generator=rng)

    return {FAST: fast, PLAIN: plain}


def _theirs(starts: list[list[int]], length: int) -> dict[str, Job]:
    from specverify.adapters.transformers_engine import TransformersEngine

    engine = TransformersEngine(gamma=GAMMA)
    settings: dict[str, Any] = {"do_sample": True, "temperature": 1.0, "top_k": 0, "top_p": 1.0}

    def assisted() -> None:
        for start in starts:
            engine.complete(start, length, SamplingParams())

    def plain() -> None:
        for start in starts:
            ids = torch.tensor([start])
            engine.target.generate(
                ids, attention_mask=torch.ones_like(ids), max_new_tokens=length, **settings
            )

    return {ASSISTED: assisted, THEIRS: plain}


def _why(pair: Pair, size: Size) -> str:
    """What the ratio to plain decoding is made of, and what keeps it from the prediction."""
    found = predicted(pair, GAMMA, size)
    # The first two make up the prediction; all together are what was measured beside it.
    beyond = ", ".join(f"{term.name} {term.factor:.2f}" for term in found.terms[2:])
    return (
        f"alpha {found.alpha:.3f}, c {found.costs.draft_ratio:.3f}, verification costs"
        f" {found.costs.verify_ratio:.2f} steps: predicted {found.predicted_speedup:.2f}x plain;"
        f" {found.speedup.value:.2f}x measured beside it, by factors: {beyond}"
    )
