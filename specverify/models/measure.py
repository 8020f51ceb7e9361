"""What a pair does on this machine: tokens a pass and speedup, measured and predicted."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from specverify.errors import InvalidInputError
from specverify.models.acceptance_profile import Estimate, by_context, by_position
from specverify.models.attribution import Term, Totals, attribute
from specverify.models.completions import Completions, Seconds, Traced
from specverify.models.costs import Clock, Costs, Extras, measure_costs, measure_extras
from specverify.models.pairs import Pair
from specverify.models.threads import one_thread
from specverify.sampler.trace import DecodeTrace
from specverify.stats.intervals import clustered_interval
from specverify.theory.expected_tokens import expected_accepted_tokens
from specverify.warping import SamplingParams

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
        predicted_speedup_bounds: The same with bounds: what the draws may do, and the spread of
            the costs over repetitions.
        alpha_bounds: ``alpha`` with bounds that allow for prompts that differ.
        alpha_by_position: Conditional acceptance rate at each position of a block.
        alpha_by_context: Acceptance rate in each quarter of the completions.
        terms: Factors from the formula to the measured speedup, see ``attribute``.
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
    predicted_speedup_bounds: Estimate | None = None
    alpha_bounds: Estimate | None = None
    alpha_by_position: tuple[Estimate, ...] = ()
    alpha_by_context: tuple[Estimate, ...] = ()
    terms: tuple[Term, ...] = ()

    @property
    def speedup_as_predicted(self) -> bool:
        """Whether the measured speedup lies within the bounds of the prediction."""
        bounds = self.predicted_speedup_bounds
        return bounds is not None and bounds.low <= self.speedup.value <= bounds.high

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
    job = Completions(
        pair=pair,
        prompts=starts,
        gamma=gamma,
        max_new_tokens=max_new_tokens,
        sampling=sampling,
        seed=seed,
    )
    how: dict[str, Any] = {"gamma": gamma, "sampling": sampling, "clock": clock}
    prompt = round(statistics.fmean(map(len, starts)))
    with one_thread():
        costs = measure_costs(pair, context=prompt + max_new_tokens // 2, **how)
        extras = measure_extras(pair, prompt=prompt, **how)
        job.plain(0, 0)  # the first call also allocates and warms caches
        seconds = job.seconds(rounds, clock)
        traced = job.traced(rounds)
    return _measurement(job, costs, extras, seconds=seconds, traced=traced)


def _measurement(
    job: Completions, costs: Costs, extras: Extras, *, seconds: Seconds, traced: Traced
) -> PairMeasurement:
    gamma, length = job.gamma, job.max_new_tokens
    tokens, predicted, passes = _tokens_per_pass(traced.traces, gamma)
    texts = [length * len(runs) for runs in traced.traces]
    alpha = Estimate(*clustered_interval(traced.overlaps, texts, confidence=_CONFIDENCE))
    constant = expected_accepted_tokens(alpha.value, gamma)
    plain, fast = statistics.fmean(seconds.plain), statistics.fmean(seconds.speculative)
    return PairMeasurement(
        gamma=gamma,
        sampling=job.sampling,
        prompts=len(job.prompts),
        passes=passes,
        alpha=alpha.value,
        tokens_per_pass=tokens,
        predicted_tokens_per_pass=predicted,
        iid_tokens_per_pass=constant,
        costs=costs,
        plain_seconds=plain / length,
        speculative_seconds=fast / length,
        speedup=Estimate(*clustered_interval(*seconds, confidence=_CONFIDENCE)),
        predicted_speedup=predicted.value / costs.pass_cost(gamma),
        predicted_speedup_bounds=_predicted_speedup(predicted, costs, gamma),
        alpha_bounds=alpha,
        alpha_by_position=by_position(traced.traces, gamma),
        alpha_by_context=by_context(traced.traces),
        terms=attribute(
            Totals.of(traced.traces, plain, fast),
            costs,
            extras,
            gamma=gamma,
            tokens_per_pass=(constant, predicted.value, tokens.value),
        ),
    )


def _predicted_speedup(tokens: Estimate, costs: Costs, gamma: int) -> Estimate:
    """Bounds of a ratio whose parts err independently, each with bounds of its own."""
    cost = costs.pass_cost(gamma)
    low_cost, high_cost = costs.pass_bounds or (cost, cost)
    value = tokens.value / cost
    low = math.hypot(1 - tokens.low / tokens.value, max(high_cost / cost - 1, 0))
    high = math.hypot(tokens.high / tokens.value - 1, max(1 - low_cost / cost, 0))
    return Estimate(value, value * (1 - low), value * (1 + high))


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
