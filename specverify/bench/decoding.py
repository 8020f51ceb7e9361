"""Tokens a second of the shipped pair: our loops beside transformers' generation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from specverify.bench.timing import Asked, Job, Measurement, Size, Spread, alternate, ratio
from specverify.errors import MissingDependencyError
from specverify.models.measure import PROMPTS, measure_pair
from specverify.models.pairs import Pair, load_pair
from specverify.models.threads import one_thread
from specverify.sampler.cached import decode_cached, decode_plain_cached
from specverify.warping import SamplingParams

__all__ = ["decoding"]

GAMMA = 4
FAST, PLAIN = "ours, speculative", "ours, plain"
ASSISTED, THEIRS = "transformers, assisted", "transformers, plain"


def decoding(size: Size) -> Iterator[Measurement]:
    """Tokens a second, one sequence, temperature 1, one thread."""
    pair = load_pair()
    prompts = 1 if size.quick else 4
    length = 12 if size.quick else 64
    assert pair.tokenizer is not None
    starts = [pair.tokenizer.encode(text) for text in PROMPTS[:prompts]]
    with one_thread():
        jobs, note = _ours(pair, starts, length), _why(pair, size)
        try:
            jobs |= _theirs(starts, length)
        except MissingDependencyError as error:
            note = f"{error}; {note}"
        seconds = alternate(jobs, size.runs)
    tokens = length * len(starts)
    names = {"over our plain decoding": PLAIN, "over transformers' assisted": ASSISTED}
    ratios = {
        name: ratio(seconds[other], seconds[FAST])
        for name, other in names.items()
        if other in seconds
    }
    yield Measurement(
        what=f"shipped pair, gamma {GAMMA}, temperature 1, {length} tokens a completion",
        unit="tokens/s",
        sides={
            name: Spread.of([tokens / each for each in values]) for name, values in seconds.items()
        },
        ratios=ratios,
        asked=_asked(ratios),
        note=note,
    )


def _asked(ratios: dict[str, Spread]) -> list[Asked]:
    marks = {"over transformers' assisted": 3.0, "over our plain decoding": 1.3}
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
    from specverify.adapters.transformers import TransformersEngine

    engine = TransformersEngine(gamma=GAMMA)
    settings: dict[str, Any] = {"do_sample": True, "temperature": 1.0, "top_k": 0, "top_p": 1.0}

    def assisted() -> None:
        for start in starts:
            engine.sample(start, 1, length, SamplingParams(), 0)

    def plain() -> None:
        for start in starts:
            ids = torch.tensor([start])
            engine.target.generate(
                ids, attention_mask=torch.ones_like(ids), max_new_tokens=length, **settings
            )

    return {ASSISTED: assisted, THEIRS: plain}


def _why(pair: Pair, size: Size) -> str:
    """What the ratio to plain decoding is made of."""
    found = measure_pair(pair, gamma=GAMMA, max_new_tokens=12 if size.quick else 48, rounds=1)
    return (
        f"alpha {found.alpha:.3f}, c {found.costs.draft_ratio:.3f}, verification costs"
        f" {found.costs.verify_ratio:.2f} steps: predicted {found.predicted_speedup:.2f}x plain"
    )
