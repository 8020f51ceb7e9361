"""The same completions decoded plainly and speculatively: times, traces, acceptance rates."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from specverify._arrays import to_numpy
from specverify.distributions import acceptance_rate
from specverify.models.costs import Clock, timed
from specverify.models.pairs import Pair
from specverify.sampler.cached import decode_cached, decode_plain_cached
from specverify.sampler.trace import DecodeTrace
from specverify.warping import SamplingParams, warp_logits

__all__ = ["Completions", "Seconds", "Traced"]


class Seconds(NamedTuple):
    """Median seconds of each prompt's completion, in either way."""

    plain: list[float]
    speculative: list[float]


class Traced(NamedTuple):
    """What speculation did, by prompt and completion.

    Attributes:
        traces: Traces with acceptance rates.
        overlaps: Sum of ``sum min(target, draft)`` along the completions of each prompt.
    """

    traces: list[list[DecodeTrace]]
    overlaps: list[float]


@dataclass(frozen=True, kw_only=True)
class Completions:
    """What is decoded, in either way.

    Attributes:
        pair: The models.
        prompts: Token ids.
        gamma: Drafted tokens in a pass.
        max_new_tokens: Length of each completion.
        sampling: Temperature and filters.
        seed: Root of all draws.
    """

    pair: Pair
    prompts: Sequence[Sequence[int]]
    gamma: int
    max_new_tokens: int
    sampling: SamplingParams
    seed: int

    def plain(self, row: int, number: int) -> None:
        """Complete a prompt without the draft."""
        decode_plain_cached(
            self.pair.target,
            self.prompts[row],
            max_new_tokens=self.max_new_tokens,
            sampling=self.sampling,
            generator=self._rng(row, number),
        )

    def speculative(
        self, row: int, number: int, *, record_rates: bool = False
    ) -> tuple[NDArray[np.int64], DecodeTrace]:
        """Complete a prompt with the draft."""
        return decode_cached(
            self.pair.target,
            self.pair.draft,
            self.prompts[row],
            gamma=self.gamma,
            max_new_tokens=self.max_new_tokens,
            sampling=self.sampling,
            generator=self._rng(row, number),
            record_rates=record_rates,
        )

    def seconds(self, rounds: int, clock: Clock) -> Seconds:
        """Time every completion, plain and speculative next to each other."""
        plain, speculative = [], []
        for row in range(len(self.prompts)):
            pairs = [
                (
                    timed(clock, self.plain, row, number),
                    timed(clock, self.speculative, row, number),
                )
                for number in range(rounds)
            ]
            plain.append(statistics.median(slow for slow, _ in pairs))
            speculative.append(statistics.median(fast for _, fast in pairs))
        return Seconds(plain, speculative)

    def traced(self, rounds: int) -> Traced:
        """Decode once more, untimed, with acceptance rates."""
        traces: list[list[DecodeTrace]] = [[] for _ in self.prompts]
        overlaps = [0.0] * len(self.prompts)
        for row, number in itertools.product(range(len(self.prompts)), range(rounds)):
            tokens, trace = self.speculative(row, number, record_rates=True)
            traces[row].append(trace)
            overlaps[row] += self._overlap(self.prompts[row], tokens.tolist())
        return Traced(traces, overlaps)

    def _overlap(self, prompt: Sequence[int], tokens: Sequence[int]) -> float:
        text = np.array([[*prompt, *tokens[:-1]]])
        laws = [
            warp_logits(to_numpy(model.forward(text, model.new_cache())), self.sampling)
            for model in (self.pair.target, self.pair.draft)
        ]
        return float(acceptance_rate(*laws)[0, len(prompt) - 1 :].sum())

    def _rng(self, row: int, number: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, row, number])
