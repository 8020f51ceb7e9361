"""Tokens over rounds of a run that stops at N tokens: how far from an endless run's, by what rule.

The mean of each run's own ratio is biased, upward with the whole last round and downward with the
round cut at N; the ratio of sums, whole last rounds counted, is not.

Usage: python simulations/finite_length_bias.py [--quick] [OUTPUT.json]
"""

from __future__ import annotations

import statistics
from typing import Any

import numpy as np

from specverify.simulate.setting import Setting
from specverify.simulate.simulation import simulate_setting
from specverify.simulate.study import Study, study_main
from specverify.simulate.sweeps import Point, grid, run_sweep
from specverify.theory.emitted_length import emitted_length_pmf
from specverify.theory.expected_tokens import expected_accepted_tokens
from specverify.theory.stopped_decode import stopped_decode_law

SEED, GAMMA = 54, 5
NORMAL_95 = statistics.NormalDist().inv_cdf(0.975)
COLUMNS = {
    "alpha": "acceptance rate, the same for every token",
    "tokens": "N, the length at which a run stops",
    "endless": "tokens per pass of an endless run",
    "whole_exact": "exact mean over runs of tokens over rounds, whole last round counted",
    "cut_exact": "exact mean over runs of N over rounds",
    "whole": "the same as whole_exact, simulated",
    "whole_low": "its lower 95 % bound",
    "whole_high": "its upper 95 % bound",
    "ratio_of_sums": "simulated tokens of all runs over rounds of all runs",
    "ratio_of_sums_low": "its lower 95 % bound",
    "ratio_of_sums_high": "its upper 95 % bound",
    "whole_bias": "whole_exact over endless, less 1",
    "cut_bias": "cut_exact over endless, less 1",
}


def task(point: Point, generator: np.random.Generator) -> dict[str, Any]:
    alpha, tokens = point["alpha"], point["tokens"]
    law = stopped_decode_law(emitted_length_pmf(alpha, GAMMA), tokens)
    endless = expected_accepted_tokens(alpha, GAMMA)
    whole, cut = law.tokens_per_round().mean, law.tokens_per_round(whole_last_round=False).mean
    setting = Setting(alpha=alpha, gamma=GAMMA, length=tokens, runs=point["runs"])
    runs = simulate_setting(setting, generator)
    ratios = runs.emitted / runs.rounds
    sums = runs.tokens_per_pass()
    assert sums.standard_error is not None
    return {
        "alpha": alpha,
        "tokens": tokens,
        "endless": endless,
        "whole_exact": whole,
        "cut_exact": cut,
        "whole_bias": whole / endless - 1,
        "cut_bias": cut / endless - 1,
        **bounded("whole", ratios.mean(), ratios.std(ddof=1) / len(ratios) ** 0.5),
        **bounded("ratio_of_sums", sums.value, sums.standard_error),
    }


def bounded(name: str, value: float, error: float) -> dict[str, float]:
    reach = NORMAL_95 * float(error)
    return {
        name: float(value),
        f"{name}_low": float(value) - reach,
        f"{name}_high": float(value) + reach,
    }


def make(quick: bool) -> Study:
    runs = 200 if quick else 20_000
    axes: dict[str, list[Any]] = {
        "alpha": [0.5, 0.7, 0.9],
        "tokens": [10, 20, 50, 100, 200, 500, 1000],
    }
    points = [{**point, "runs": runs} for point in grid(axes)]
    return Study(
        title="the bias of stopping at N tokens",
        parameters={"gamma": GAMMA, "runs": runs, "seed": SEED},
        columns=COLUMNS,
        rows=run_sweep(task, points, seed=SEED),
    )


if __name__ == "__main__":
    study_main(__file__, make)
