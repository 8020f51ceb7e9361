"""What theory says of a setting in the long run, where a closed form exists."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from specverify._arrays import FloatArray
from specverify.simulate.acceptance import (
    AcceptanceProcess,
    BetaAcceptance,
    ConstantAcceptance,
    PositionAcceptance,
)
from specverify.simulate.markov import MarkovAcceptance
from specverify.simulate.setting import Setting
from specverify.simulate.timing import ConstantTiming, TimingModel
from specverify.theory.emitted_length import emitted_length_moments, emitted_length_pmf

__all__ = ["Prediction", "length_pmf", "predict"]

_NO_DRAWS = np.random.default_rng(0)


class Prediction(NamedTuple):
    """Expected tokens a pass, and expected plain time over expected speculative time."""

    tokens_per_pass: float
    speedup: float


def length_pmf(process: AcceptanceProcess, gamma: int, *, bonus: bool = True) -> FloatArray | None:
    """Law of the tokens that one round emits in the long run.

    Args:
        process: How likely draft tokens are accepted.
        gamma: Drafted tokens of a round.
        bonus: Whether a fully accepted block earns one more token.

    Returns:
        Probabilities of 1, 2, ... tokens, or None where no closed form is known.
    """
    if isinstance(process, MarkovAcceptance):
        alphas = np.repeat(process.alphas[:, None], gamma, axis=1)
        return emitted_length_pmf(alphas, bonus=bonus, weights=process.stationary)
    if isinstance(process, ConstantAcceptance | PositionAcceptance | BetaAcceptance):
        return emitted_length_pmf(process.position_alphas(gamma), bonus=bonus)
    return None


def predict(setting: Setting) -> Prediction | None:
    """Closed forms of a fixed draft length without overlap; prefill and the last round left out.

    Args:
        setting: What would be simulated.

    Returns:
        Tokens per pass and speedup of an endless run, or None where no closed form is known.
    """
    if setting.policy != "fixed" or setting.overlap:
        return None
    pmf = length_pmf(setting.acceptance_process(), setting.gamma, bonus=setting.bonus)
    if pmf is None:
        return None
    tokens = emitted_length_moments(pmf)[0]
    round_time, step_time = mean_times(setting)
    return Prediction(tokens, tokens * step_time / round_time)


def mean_times(setting: Setting) -> tuple[float, float]:
    """Mean time of a round of ``gamma`` drafts, and of a plain step."""
    timing: TimingModel = setting.timing_model()
    if setting.timing in ("gamma", "lognormal"):  # jitter of mean one
        timing = ConstantTiming(setting.c, 1.0, verify_slope=setting.verify_slope)
    gamma, one = np.array([setting.gamma]), np.array([1])
    drafts = timing.draft_times(_NO_DRAWS, gamma)
    verify = timing.verify_times(_NO_DRAWS, one, gamma)
    return float((drafts + verify)[0]), float(timing.plain_times(_NO_DRAWS, one)[0])
