"""From a setting to simulated runs, and from these to one flat row."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from typing import Any

import numpy as np

from specverify.errors import InvalidInputError
from specverify.simulate.outcome import Estimate, SimulatedRuns
from specverify.simulate.policies import GammaPolicy, ReachGamma
from specverify.simulate.predictions import predict
from specverify.simulate.rounds import simulate_runs
from specverify.simulate.setting import Setting
from specverify.simulate.stopping import AtRounds

__all__ = ["QUANTILES", "setting_row", "simulate_setting"]

QUANTILES = (0.05, 0.5, 0.95, 0.99)
_NORMAL_95 = statistics.NormalDist().inv_cdf(0.975)
_TUNING_ROUNDS, _TUNING_RUNS, _TUNING_STEPS = 50, 100, 4


def simulate_setting(setting: Setting, generator: np.random.Generator) -> SimulatedRuns:
    """Simulate independent runs.

    Args:
        setting: What is simulated.
        generator: Source of randomness.

    Returns:
        Totals of each run; times in plain steps of the target at batch 1.

    Raises:
        InvalidInputError: If a number is out of range or two attributes do not go together.
    """
    policy = setting.gamma_policy() or _optimal_policy(setting, generator)
    return simulate_runs(
        setting.acceptance_process(),
        policy,
        setting.timing_model(),
        setting.stop_rule(),
        runs=setting.runs,
        generator=generator,
        bonus=setting.bonus,
        overlap=setting.overlap,
        target_prefill=setting.prefill,
        draft_prefill=setting.draft_prefill,
    )


def setting_row(values: Mapping[str, Any], generator: np.random.Generator) -> dict[str, Any]:
    """Simulate one point of a grid; a task for :func:`specverify.simulate.sweeps.run_sweep`.

    Args:
        values: Attributes of a :class:`Setting` by name; the rest by default.
        generator: Source of randomness.

    Returns:
        One flat row of JSON values: ``values`` but a trace; ``rounds``, ``drafted_per_pass``;
        estimates with standard error and 95 % bounds (``_low``, ``_high``) of
        ``tokens_per_pass``, ``speedup``, ``acceptance_rate`` (accepted over tested) and
        ``accepted_over_drafted``; quantiles over runs of the time per delivered token
        (``latency_p50``) and of the time to the last one (``time_p50``), in target steps; what
        theory predicts (``predicted_...``, None where no closed form is known).
    """
    setting = Setting.of(values)
    runs = simulate_setting(setting, generator)
    passes = int(runs.rounds.sum())
    drafted = int(runs.drafted.sum()) / passes
    told = {name: value for name, value in values.items() if name != "trace"}
    row: dict[str, Any] = {**told, "rounds": passes, "drafted_per_pass": drafted}
    estimates = {
        "tokens_per_pass": runs.tokens_per_pass(),
        "speedup": runs.speedup(),
        "acceptance_rate": runs.acceptance(),
        "accepted_over_drafted": runs.accepted_over_drafted(),
    }
    for name, estimate in estimates.items():
        row |= _with_bounds(name, estimate)
    for name, quantiles in (
        ("latency", runs.latency_quantiles(QUANTILES)),
        ("time", runs.time_quantiles(QUANTILES)),
    ):
        row |= {
            f"{name}_p{round(100 * level)}": float(value)
            for level, value in zip(QUANTILES, quantiles, strict=True)
        }
    prediction = predict(setting)
    row["predicted_tokens_per_pass"] = prediction and prediction.tokens_per_pass
    row["predicted_speedup"] = prediction and prediction.speedup
    return row


def _with_bounds(name: str, estimate: Estimate) -> dict[str, float | None]:
    error = estimate.standard_error
    reach = None if error is None else _NORMAL_95 * error
    return {
        name: estimate.value,
        f"{name}_standard_error": error,
        f"{name}_low": None if reach is None else estimate.value - reach,
        f"{name}_high": None if reach is None else estimate.value + reach,
    }


def _optimal_policy(setting: Setting, generator: np.random.Generator) -> GammaPolicy:
    """Policy iteration: the rate of the best policy so far sets the next one's threshold."""
    if setting.timing == "roofline":
        raise InvalidInputError("policy", "optimal needs a cost linear in gamma, not a roofline")
    cost = setting.c + setting.verify_slope
    rate = 1.0  # of plain decoding
    for _ in range(_TUNING_STEPS):
        policy = ReachGamma(min(rate * cost, 1.0), max_gamma=setting.max_gamma)
        trial = simulate_runs(
            setting.acceptance_process(),
            policy,
            setting.timing_model(),
            AtRounds(_TUNING_ROUNDS),
            runs=_TUNING_RUNS,
            generator=generator,
            bonus=setting.bonus,
            overlap=setting.overlap,
        )
        rate = max(rate, trial.speedup().value)
    return ReachGamma(min(rate * cost, 1.0), max_gamma=setting.max_gamma)
