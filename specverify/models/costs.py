"""Seconds of the calls that decoding is made of, and the ratios that predict its speedup."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from specverify.models.pairs import Pair
from specverify.sampler.cached_parts import laws_on_host
from specverify.sampler.protocols import CachedModel
from specverify.warping import SamplingParams

__all__ = [
    "Clock",
    "Costs",
    "Extras",
    "measure_cost_table",
    "measure_costs",
    "measure_extras",
    "timed",
]

_CONTEXT = 48
_REPEATS = 30
_LOW = 9  # order statistics 10 and 21 of 30 hold the median with 95.7 %
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
        pass_bounds: 95 % bounds of the cost of a whole pass, ``gamma c + v``, from its spread over
            repetitions; None where unknown.
    """

    target_step: float
    target_block: float
    draft_step: float
    pass_bounds: tuple[float, float] | None = None

    @property
    def draft_ratio(self) -> float:
        """``c``: a draft step over a target step."""
        return self.draft_step / self.target_step

    @property
    def verify_ratio(self) -> float:
        """``v``: the target's pass over a whole block over its pass over one token."""
        return self.target_block / self.target_step

    def pass_cost(self, gamma: int) -> float:
        """Cost of a whole pass over a target step: ``gamma c + v``."""
        return gamma * self.draft_ratio + self.verify_ratio


def measure_costs(
    pair: Pair,
    *,
    gamma: int,
    sampling: SamplingParams = _PLAIN,
    clock: Clock = time.thread_time,
    context: int = _CONTEXT,
    batch: int = 1,
) -> Costs:
    """Median seconds of the three calls that decoding is made of, law of the next token included.

    Args:
        pair: The models.
        gamma: Drafted tokens in a pass.
        sampling: Temperature and filters.
        clock: Seconds.
        context: Tokens in the caches before a call, as far as there is room.
        batch: Sequences that a call reads.
    """
    at = _Place(sampling, context, batch)
    calls = (
        at.call(pair.target, 1, 1),
        at.call(pair.target, gamma + 1, 1),
        at.call(pair.draft, 1, gamma),
    )
    samples = [[timed(clock, call) for call in calls] for _ in range(_REPEATS)]
    step, block, drafts = (statistics.median(column) for column in zip(*samples, strict=True))
    ratios = sorted((drafts + block) / step for step, block, drafts in samples)
    return Costs(
        target_step=step,
        target_block=block,
        draft_step=drafts / gamma,
        pass_bounds=(ratios[_LOW], ratios[-1 - _LOW]),
    )


def measure_cost_table(
    pair: Pair,
    *,
    gammas: Sequence[int],
    batches: Sequence[int] = (1,),
    sampling: SamplingParams = _PLAIN,
    clock: Clock = time.thread_time,
) -> list[dict[str, float]]:
    """Costs as a function of draft length and batch.

    Args:
        pair: The models.
        gammas: Drafted tokens in a pass.
        batches: Sequences that a call reads.
        sampling: Temperature and filters.
        clock: Seconds.

    Returns:
        One row a setting: ``batch``, ``gamma``, ``c`` and ``verify_cost`` (over a target step of
        the same batch), ``target_ms``, ``block_ms`` and ``draft_ms``.
    """
    rows = []
    for batch, gamma in itertools.product(batches, gammas):
        costs = measure_costs(pair, gamma=gamma, sampling=sampling, clock=clock, batch=batch)
        rows.append(
            {
                "batch": batch,
                "gamma": gamma,
                "c": costs.draft_ratio,
                "verify_cost": costs.verify_ratio,
                "target_ms": 1e3 * costs.target_step,
                "block_ms": 1e3 * costs.target_block,
                "draft_ms": 1e3 * costs.draft_step,
            }
        )
    return rows


@dataclass(frozen=True, kw_only=True)
class Extras:
    """Seconds of calls that the usual ones leave out.

    Attributes:
        target_prompt: Target reads the prompt.
        target_prompt_block: Target reads the prompt and ``gamma`` drafted tokens.
        draft_prompt: Draft reads the prompt.
        draft_two: Draft reads two tokens, as after a full accept.
    """

    target_prompt: float
    target_prompt_block: float
    draft_prompt: float
    draft_two: float


def measure_extras(
    pair: Pair,
    *,
    gamma: int,
    prompt: int,
    sampling: SamplingParams = _PLAIN,
    clock: Clock = time.thread_time,
) -> Extras:
    """Median seconds of reading a prompt and of catching up.

    Args:
        pair: The models.
        gamma: Drafted tokens in a pass.
        prompt: Tokens of a prompt.
        sampling: Temperature and filters.
        clock: Seconds.
    """
    at = _Place(sampling, _CONTEXT, 1)
    calls = (
        at.first_call(pair.target, prompt),
        at.first_call(pair.target, prompt + gamma),
        at.first_call(pair.draft, prompt),
        at.call(pair.draft, 2, 1),
    )
    samples = [[timed(clock, call) for call in calls] for _ in range(_REPEATS)]
    whole, longer, draft, two = (statistics.median(column) for column in zip(*samples, strict=True))
    return Extras(
        target_prompt=whole, target_prompt_block=longer, draft_prompt=draft, draft_two=two
    )


def timed(clock: Clock, function: Callable[..., object], *arguments: int) -> float:
    """Seconds of one call, by a clock."""
    start = clock()
    function(*arguments)
    return clock() - start


@dataclass(frozen=True)
class _Place:
    """Where calls are made: after how much text, in how many sequences."""

    sampling: SamplingParams
    context: int
    batch: int

    def call(self, model: CachedModel, count: int, repeats: int) -> Callable[[], None]:
        """``repeats`` calls of ``count`` tokens after the context, and the laws that they give.

        A draft's steps follow each other as they do when decoding: the first one finds the
        processor's caches full of the target, the others do not.
        """
        rng = np.random.default_rng(0)
        context = max(min(self.context, model.max_length - repeats * count), 1)
        cache = model.new_cache(self.batch)
        model.forward(rng.integers(0, model.vocab_size, (self.batch, context)), cache)
        tokens = rng.integers(0, model.vocab_size, (self.batch, count))

        def call() -> None:
            for _ in range(repeats):
                logits = model.forward(tokens, cache)
                for row in range(self.batch):
                    laws_on_host(logits[row], self.sampling)
            cache.lengths[:] = context

        call()
        return call

    def first_call(self, model: CachedModel, count: int) -> Callable[[], None]:
        """One call of ``count`` tokens into an empty cache, and the law after the last."""
        length = min(count, model.max_length)
        tokens = np.random.default_rng(0).integers(0, model.vocab_size, (1, length))

        def call() -> None:
            laws_on_host(model.forward(tokens, model.new_cache())[0, -1:], self.sampling)

        call()
        return call
