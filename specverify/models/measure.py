"""What a pair does on this machine: tokens a pass and speedup, measured and predicted."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from specverify._arrays import to_numpy
from specverify.distributions import acceptance_rate
from specverify.errors import InvalidInputError
from specverify.models.costs import Clock, Costs, measure_costs, timed
from specverify.models.pairs import Pair
from specverify.models.threads import one_thread
from specverify.sampler.cached import decode_cached, decode_plain_cached
from specverify.sampler.trace import DecodeTrace
from specverify.stats.intervals import clustered_interval
from specverify.theory.expected_tokens import expected_accepted_tokens
from specverify.warping import SamplingParams, warp_logits

__all__ = ["PROMPTS", "Estimate", "PairMeasurement", "measure_pair"]

PROMPTS = (
    "HAMLET:\nTo be, or not to be",
    "ROMEO:\nBut, soft! what light",
    "MACBETH:\nIs this a dagger",
    "KING LEAR:\nBlow, winds",
    "PORTIA:\nThe quality of mercy",
    "BRUTUS:\nRomans, countrymen",
    "PROSPERO:\nOur revels now",
    "KING HENRY V:\nOnce more unto",
    "ROSALIND:\nAll the world",
    "OTHELLO:\nIt is the cause",
    "VIOLA:\nWhat country, friends",
    "PUCK:\nIf we shadows",
)
"""Openings for the shipped pair, which writes pastiche of them."""

_CONFIDENCE = 0.95
_NORMAL_95 = statistics.NormalDist().inv_cdf(0.975)
_PLAIN = SamplingParams()


class Estimate(NamedTuple):
    """A number with its 95 % bounds."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class PairMeasurement:
    """Speculative against plain decoding with one pair at one gamma.

    Attributes:
        gamma: Drafted tokens in a pass.
        sampling: Temperature and filters.
        prompts: Number of prompts.
        passes: Full passes that the tokens were counted over.
        alpha: Mean overlap ``sum min(target, draft)`` along the completions.
        tokens_per_pass: Emitted tokens a full pass, measured; bounds allow for prompts that differ.
        predicted_tokens_per_pass: ``1 + sum of alpha_i / passes`` over the tested positions, each
            with its own known alpha; bounds are what the draws alone may do.
        iid_tokens_per_pass: ``(1 - alpha^(gamma+1)) / (1 - alpha)``.
        costs: Seconds of the calls.
        plain_seconds: Plain decoding, seconds a token: mean over prompts of medians over rounds.
        speculative_seconds: Speculative decoding, likewise.
        speedup: Ratio of the two; bounds allow for prompts that differ.
        predicted_speedup: Predicted tokens a pass over ``gamma c + v``.
    """

    gamma: int
    sampling: SamplingParams
    prompts: int
    passes: int
    alpha: float
    tokens_per_pass: Estimate
    predicted_tokens_per_pass: Estimate
    iid_tokens_per_pass: float
    costs: Costs
    plain_seconds: float
    speculative_seconds: float
    speedup: Estimate
    predicted_speedup: float

    @property
    def as_predicted(self) -> bool:
        """Whether the measured tokens a pass lie within the prediction's 95 % bounds."""
        prediction = self.predicted_tokens_per_pass
        gap = abs(self.tokens_per_pass.value - prediction.value)
        # Greedy decoding leaves no slack at all, but the two sums round differently.
        return gap <= prediction.high - prediction.value + 1e-9


def measure_pair(
    pair: Pair,
    *,
    gamma: int = 4,
    sampling: SamplingParams = _PLAIN,
    prompts: Sequence[Sequence[int]] | None = None,
    max_new_tokens: int = 96,
    rounds: int = 3,
    seed: int = 0,
    clock: Clock = time.thread_time,
) -> PairMeasurement:
    """Decode with and without the draft, in turn, on one thread, and compare with theory.

    Args:
        pair: The models.
        gamma: Drafted tokens in a pass, at least 1.
        sampling: Temperature and filters of both models.
        prompts: Token ids of at least two prompts; ``PROMPTS`` by default.
        max_new_tokens: Length of each completion, more than ``gamma + 1``.
        rounds: Completions of each prompt in either way, in alternation.
        seed: Root of all draws.
        clock: Seconds; CPU seconds of this thread by default, which other programs do not disturb.

    Returns:
        What was measured and what was predicted.

    Raises:
        InvalidInputError: If a number is too small, a completion does not fit the target, or there
            are no prompts and no tokeniser to make them with.
    """
    starts = _prompts(pair, prompts)
    _check(gamma, max_new_tokens, rounds)
    job = _Job(
        pair=pair,
        prompts=starts,
        gamma=gamma,
        max_new_tokens=max_new_tokens,
        sampling=sampling,
        seed=seed,
    )
    with one_thread():
        costs = measure_costs(pair, gamma=gamma, sampling=sampling, clock=clock)
        job.plain(0, 0)  # the first call also allocates and warms caches
        plain, speculative = _seconds(job, rounds, clock)
        traces, alpha = job.traces(rounds)
    tokens, predicted, passes = _tokens_per_pass(traces, gamma)
    return PairMeasurement(
        gamma=gamma,
        sampling=sampling,
        prompts=len(starts),
        passes=passes,
        alpha=alpha,
        tokens_per_pass=tokens,
        predicted_tokens_per_pass=predicted,
        iid_tokens_per_pass=expected_accepted_tokens(alpha, gamma),
        costs=costs,
        plain_seconds=statistics.fmean(plain) / max_new_tokens,
        speculative_seconds=statistics.fmean(speculative) / max_new_tokens,
        speedup=Estimate(*clustered_interval(plain, speculative, confidence=_CONFIDENCE)),
        predicted_speedup=predicted.value / (gamma * costs.draft_ratio + costs.verify_ratio),
    )


@dataclass(frozen=True, kw_only=True)
class _Job:
    """The same completions, decoded in either way."""

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

    def traces(self, rounds: int) -> tuple[list[list[DecodeTrace]], float]:
        """Traces by prompt, with rates, and the mean overlap along the completions."""
        found: list[list[DecodeTrace]] = [[] for _ in self.prompts]
        overlaps = []
        for row, number in itertools.product(range(len(self.prompts)), range(rounds)):
            tokens, trace = self.speculative(row, number, record_rates=True)
            found[row].append(trace)
            overlaps.append(self._overlap(self.prompts[row], tokens.tolist()))
        return found, float(np.mean(overlaps))

    def _overlap(self, prompt: Sequence[int], tokens: Sequence[int]) -> float:
        text = np.array([[*prompt, *tokens[:-1]]])
        laws = [
            warp_logits(to_numpy(model.forward(text, model.new_cache())), self.sampling)
            for model in (self.pair.target, self.pair.draft)
        ]
        return float(acceptance_rate(*laws)[0, len(prompt) - 1 :].mean())

    def _rng(self, row: int, number: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, row, number])


def _seconds(job: _Job, rounds: int, clock: Clock) -> tuple[list[float], list[float]]:
    """Median seconds of each prompt, plain and speculative, the two next to each other in time."""
    plain, speculative = [], []
    for row in range(len(job.prompts)):
        pairs = [
            (timed(clock, job.plain, row, number), timed(clock, job.speculative, row, number))
            for number in range(rounds)
        ]
        plain.append(statistics.median(slow for slow, _ in pairs))
        speculative.append(statistics.median(fast for _, fast in pairs))
    return plain, speculative


def _tokens_per_pass(
    traces: Sequence[Sequence[DecodeTrace]], gamma: int
) -> tuple[Estimate, Estimate, int]:
    """Measured and predicted tokens of the passes that drafted ``gamma`` tokens."""
    emitted, passes, rates = [], [], []
    for runs in traces:
        blocks = [block for trace in runs for block in trace if len(block.proposed) == gamma]
        emitted.append(sum(len(block.emitted) for block in blocks))
        passes.append(len(blocks))
        rates += [rate for block in blocks for rate in block.acceptance_rates[: block.n_tested]]
    total = sum(passes)
    alphas = np.array(rates)
    predicted = 1 + float(alphas.sum()) / total
    # Tested positions are Bernoulli trials of known probabilities: their errors are a martingale.
    reach = _NORMAL_95 * float(np.sqrt(np.sum(alphas * (1 - alphas)))) / total
    measured = Estimate(*clustered_interval(emitted, passes, confidence=_CONFIDENCE))
    return measured, Estimate(predicted, predicted - reach, predicted + reach), total


def _prompts(pair: Pair, prompts: Sequence[Sequence[int]] | None) -> Sequence[Sequence[int]]:
    if prompts is None and pair.tokenizer is None:
        raise InvalidInputError("prompts", f"{pair.name} has no tokeniser: give token ids")
    starts = [pair.tokenizer.encode(t) for t in PROMPTS] if prompts is None else prompts  # type: ignore[union-attr]
    if len(starts) < 2:
        raise InvalidInputError("prompts", f"needs at least 2, got {len(starts)}")
    return starts


def _check(gamma: int, max_new_tokens: int, rounds: int) -> None:
    if gamma < 1:
        raise InvalidInputError("gamma", f"must be at least 1, got {gamma}")
    if max_new_tokens < gamma + 2:
        raise InvalidInputError(
            "max_new_tokens", f"must exceed gamma + 1 = {gamma + 1}, got {max_new_tokens}"
        )
    if rounds < 1:
        raise InvalidInputError("rounds", f"must be at least 1, got {rounds}")
