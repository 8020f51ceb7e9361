"""Acceptance rates of a pair by position in the block and by place in the text, with bounds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from specverify.sampler.trace import BlockTrace, DecodeTrace
from specverify.stats.intervals import clustered_interval

__all__ = ["Estimate", "by_context", "by_position"]

_CONFIDENCE = 0.95
_PARTS = 4


class Estimate(NamedTuple):
    """A number with its 95 % bounds."""

    value: float
    low: float
    high: float


def by_position(traces: Sequence[Sequence[DecodeTrace]], gamma: int) -> tuple[Estimate, ...]:
    """Conditional acceptance rate at positions 1 ... gamma, given that all before were accepted.

    Args:
        traces: Traces of each prompt's completions, with acceptance rates.
        gamma: Drafted tokens in a pass.

    Returns:
        Mean known rate of the tested tokens at each position; bounds allow for prompts that
        differ. Positions that no prompt reached are left out.
    """
    return _grouped(traces, gamma, lambda start, place, length: place)


def by_context(traces: Sequence[Sequence[DecodeTrace]]) -> tuple[Estimate, ...]:
    """Acceptance rate of the tested tokens in each quarter of the completions; as by_position."""
    return _grouped(
        traces, _PARTS, lambda start, place, length: min((start + place) * _PARTS // length, 3)
    )


def _grouped(
    traces: Sequence[Sequence[DecodeTrace]],
    groups: int,
    group_of: Callable[[int, int, int], int],
) -> tuple[Estimate, ...]:
    sums = [[0.0] * len(traces) for _ in range(groups)]
    counts = [[0] * len(traces) for _ in range(groups)]
    for prompt, runs in enumerate(traces):
        for trace in runs:
            start, length = 0, trace.kept
            for block in trace:
                for place, rate in enumerate(_tested(block)):
                    group = group_of(start, place, length)
                    sums[group][prompt] += rate
                    counts[group][prompt] += 1
                start += block.kept
    return tuple(
        _rate(above, below) for above, below in zip(sums, counts, strict=True) if any(below)
    )


def _rate(above: Sequence[float], below: Sequence[int]) -> Estimate:
    value, low, high = clustered_interval(above, below, confidence=_CONFIDENCE)
    return Estimate(value, max(low, 0.0), min(high, 1.0))


def _tested(block: BlockTrace) -> tuple[float, ...]:
    return block.acceptance_rates[: block.n_tested]
