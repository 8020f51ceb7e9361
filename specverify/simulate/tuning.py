"""Which draft length to use, how sure that is, and what a misjudged alpha or cost loses."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from specverify._arrays import FloatArray
from specverify.errors import InvalidInputError
from specverify.theory.validation import checked_cost, checked_count, checked_probability

__all__ = [
    "Belief",
    "Recommendation",
    "belief_of",
    "belief_of_measurements",
    "misjudged",
    "recommend",
]

_STEPS = 9
_ALPHA_OFF = (-0.1, -0.05, 0.05, 0.1)
_COST_OFF = (0.5, 2.0)


@dataclass(frozen=True, kw_only=True)
class Belief:
    """What is known of a pair: estimates with bounds, over draft lengths ``1 ... max_gamma``.

    Attributes:
        alphas: Acceptance rate at each position given that all before were accepted, with its
            lower and its upper bound, three rows of shape ``(max_gamma,)``.
        draft_costs: Cost of drafting ``gamma`` tokens over that of a plain target step, shape
            ``(max_gamma,)``.
        verify_costs: Cost of the target's pass over the block, likewise.
        scale: Bounds of the true draft costs over ``draft_costs``.
    """

    alphas: FloatArray
    draft_costs: FloatArray
    verify_costs: FloatArray
    scale: tuple[float, float] = (1.0, 1.0)

    def speedups(self, *, share: float | None = None, scale: float = 1.0) -> FloatArray:
        """Expected speedup at each draft length.

        Args:
            share: None for the estimates of alpha; else where between the bounds, 0 to 1.
            scale: Factor of the draft costs.
        """
        estimate, low, high = self.alphas
        rates = estimate if share is None else low + share * (high - low)
        tokens: FloatArray = 1 + np.cumsum(np.cumprod(rates))
        return tokens / (scale * self.draft_costs + self.verify_costs)


@dataclass(frozen=True, kw_only=True)
class Recommendation:
    """A draft length.

    Attributes:
        gamma: The best one by the estimates.
        gamma_low: The least that is best for some alpha and cost within the bounds.
        gamma_high: The largest such.
        speedup: Expected speedup at ``gamma``; at most 1 means: do not speculate.
        speedup_low: Its least value within the bounds.
        speedup_high: Its largest.
        worst_loss: Largest share of the best speedup that ``gamma`` may lose within the bounds.
        cautious_gamma: The draft length whose worst loss is least.
        cautious_loss: That loss.
    """

    gamma: int
    gamma_low: int
    gamma_high: int
    speedup: float
    speedup_low: float
    speedup_high: float
    worst_loss: float
    cautious_gamma: int
    cautious_loss: float


def belief_of(
    alpha: Sequence[float],
    c: Sequence[float],
    *,
    verify_cost: float = 1.0,
    verify_slope: float = 0.0,
    max_gamma: int = 20,
) -> Belief:
    """A belief from numbers.

    Args:
        alpha: Acceptance rate, the same for every token: estimate, lower and upper bound.
        c: Cost of a draft step over that of a plain target step, likewise.
        verify_cost: Cost of a pass over one drafted token.
        verify_slope: What each further drafted token adds.
        max_gamma: Longest draft considered.

    Raises:
        InvalidInputError: If a number is out of range or the bounds do not hold the estimate.
    """
    checked_count("max_gamma", max_gamma)
    checked_probability("alpha", alpha)
    checked_cost("c", c)
    checked_cost("verify_cost", verify_cost, positive=True)
    checked_cost("verify_slope", verify_slope)
    for name, (estimate, low, high) in {"alpha": alpha, "c": c}.items():
        if not low <= estimate <= high:
            raise InvalidInputError(name, f"{estimate} lies outside its bounds [{low}, {high}]")
    gammas = np.arange(1, max_gamma + 1)
    return Belief(
        alphas=np.repeat(np.asarray(alpha, dtype=np.float64)[:, None], max_gamma, axis=1),
        draft_costs=gammas * float(c[0]),
        verify_costs=verify_cost + verify_slope * (gammas - 1),
        scale=(c[1] / c[0], c[2] / c[0]) if c[0] else (1.0, 1.0),
    )


def belief_of_measurements(records: Sequence[Mapping[str, Any]], *, max_gamma: int = 20) -> Belief:
    """A belief from the records of ``specverify measure --json``.

    Alpha by position comes from the record of the longest draft, its last value serving beyond;
    costs between measured draft lengths are interpolated, and go on in a straight line.

    Args:
        records: One a draft length.
        max_gamma: Longest draft considered.

    Raises:
        InvalidInputError: If a record lacks what is needed.
    """
    checked_count("max_gamma", max_gamma)
    try:
        rows = sorted(records, key=lambda record: record["gamma"])
        rates = rows[-1]["alpha_by_position"]
        alphas = [[rate[name] for rate in rates] for name in ("value", "low", "high")]
        gammas = [row["gamma"] for row in rows]
        drafting = [row["gamma"] * row["c"] for row in rows]
        verifying = [row["verify_cost"] for row in rows]
        bounds = [row["pass_cost_bounds"] for row in rows]
        spread = [(b["low"] / b["value"], b["high"] / b["value"]) for b in bounds]
        scale = tuple(float(np.mean(column)) for column in zip(*spread, strict=True))
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise InvalidInputError("records", f"are not of `specverify measure`: {error!r}") from None
    held = np.clip(alphas, 0, 1)[:, :max_gamma]
    return Belief(
        alphas=np.pad(held, ((0, 0), (0, max_gamma - held.shape[1])), mode="edge"),
        draft_costs=_interpolated([0, *gammas], [0.0, *drafting], max_gamma),
        verify_costs=_interpolated([0, *gammas], [1.0, *verifying], max_gamma),
        scale=(scale[0], scale[1]),
    )


def recommend(belief: Belief) -> Recommendation:
    """The best draft length, with what the bounds leave open."""
    shares, scales = np.linspace(0, 1, _STEPS), np.linspace(*belief.scale, _STEPS)
    curves = np.array(
        [
            belief.speedups(share=share, scale=scale)
            for share, scale in itertools.product(shares, scales)
        ]
    )
    curves = np.vstack([curves, belief.speedups()])
    best = curves.argmax(axis=1)
    losses = (1 - curves / curves.max(axis=1, keepdims=True)).max(axis=0)
    chosen, cautious = int(best[-1]), int(losses.argmin())
    return Recommendation(
        gamma=chosen + 1,
        gamma_low=int(best.min()) + 1,
        gamma_high=int(best.max()) + 1,
        speedup=float(curves[-1, chosen]),
        speedup_low=float(curves[:, chosen].min()),
        speedup_high=float(curves[:, chosen].max()),
        worst_loss=float(losses[chosen]),
        cautious_gamma=cautious + 1,
        cautious_loss=float(losses[cautious]),
    )


def misjudged(belief: Belief) -> list[dict[str, Any]]:
    """What the recommended draft length loses where the truth is another.

    Returns:
        One row a truth: ``truth`` in words, ``gamma`` that would be best then, ``speedup`` of the
        recommended one, ``best_speedup``, and ``loss``, the share of the best that is lost.
    """
    chosen = int(belief.speedups().argmax())
    truths = {f"alpha {off:+g}": _shifted(belief, off) for off in _ALPHA_OFF}
    truths |= {
        f"draft cost x {factor:g}": replace(belief, draft_costs=factor * belief.draft_costs)
        for factor in _COST_OFF
    }
    rows = []
    for text, truth in truths.items():
        curve = truth.speedups()
        best = int(curve.argmax())
        rows.append(
            {
                "truth": text,
                "gamma": best + 1,
                "speedup": float(curve[chosen]),
                "best_speedup": float(curve[best]),
                "loss": float(1 - curve[chosen] / curve[best]),
            }
        )
    return rows


def _shifted(belief: Belief, off: float) -> Belief:
    return replace(belief, alphas=np.clip(belief.alphas + off, 0, 1))


def _interpolated(gammas: Sequence[float], values: ArrayLike, most: int) -> FloatArray:
    """Values at 1 ... most: straight lines between the given ones, the last one going on."""
    known = np.asarray(values, dtype=np.float64)
    wanted = np.arange(1, most + 1)
    slope = max((known[-1] - known[-2]) / (gammas[-1] - gammas[-2]), 0.0)
    beyond = np.maximum(wanted - gammas[-1], 0)
    line: FloatArray = np.interp(wanted, gammas, known) + slope * beyond
    return line
