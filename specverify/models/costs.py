"""Seconds of the calls that decoding is made of, and the ratios that predict its speedup."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from specverify.models.pairs import Pair
from specverify.sampler.cached import laws_on_host
from specverify.sampler.protocols import CachedModel
from specverify.warping import SamplingParams

__all__ = ["Clock", "Costs", "measure_costs", "timed"]

_CONTEXT = 48
_REPEATS = 30
_PLAIN = SamplingParams()

Clock: TypeAlias = Callable[[], float]
"""Seconds, from any starting point."""


@dataclass(frozen=True, kw_only=True)
class Costs:
    """Seconds of one call, and the ratios that speedup is predicted from.

    Attributes:
        target_step: Target, one token.
        target_block: Target, ``gamma + 1`` tokens.
        draft_step: Draft, one token, mean of ``gamma`` steps in a row.
    """

    target_step: float
    target_block: float
    draft_step: float

    @property
    def draft_ratio(self) -> float:
        """``c``: a draft step over a target step."""
        return self.draft_step / self.target_step

    @property
    def verify_ratio(self) -> float:
        """``v``: the target's pass over a whole block over its pass over one token."""
        return self.target_block / self.target_step


def measure_costs(
    pair: Pair,
    *,
    gamma: int,
    sampling: SamplingParams = _PLAIN,
    clock: Clock = time.thread_time,
) -> Costs:
    """Median seconds of the three calls that decoding is made of, law of the next token included.

    Args:
        pair: The models.
        gamma: Drafted tokens in a pass.
        sampling: Temperature and filters.
        clock: Seconds.
    """
    calls = (
        _call(pair.target, 1, 1, sampling),
        _call(pair.target, gamma + 1, 1, sampling),
        _call(pair.draft, 1, gamma, sampling),
    )
    samples = [[timed(clock, call) for call in calls] for _ in range(_REPEATS)]
    step, block, drafts = (statistics.median(column) for column in zip(*samples, strict=True))
    return Costs(target_step=step, target_block=block, draft_step=drafts / gamma)


def timed(clock: Clock, function: Callable[..., object], *arguments: int) -> float:
    """Seconds of one call, by a clock."""
    start = clock()
    function(*arguments)
    return clock() - start


def _call(
    model: CachedModel, count: int, repeats: int, sampling: SamplingParams
) -> Callable[[], None]:
    """``repeats`` calls of ``count`` tokens after a fixed context, and the laws that they give.

    A draft's steps follow each other as they do when decoding: the first one finds the processor's
    caches full of the target, the others do not.
    """
    rng = np.random.default_rng(0)
    context = min(_CONTEXT, model.max_length - repeats * count)
    cache = model.new_cache()
    model.forward(rng.integers(0, model.vocab_size, (1, context)), cache)
    tokens = rng.integers(0, model.vocab_size, (1, count))

    def call() -> None:
        for _ in range(repeats):
            laws_on_host(model.forward(tokens, cache)[0], sampling)
        cache.lengths[:] = context

    call()
    return call
