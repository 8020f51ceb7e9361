"""What one pooled acceptance rate hides: easy and hard text, by round, by token, in stretches.

The formula of a constant alpha is shown beside the prediction that knows the mixture.

Usage: python simulations/heterogeneity.py [--quick] [OUTPUT.json]
"""

from __future__ import annotations

from typing import Any

from specverify.simulate.simulation import setting_row
from specverify.simulate.study import Study, study_main
from specverify.simulate.sweeps import grid, run_sweep
from specverify.theory.expected_tokens import expected_accepted_tokens

SEED = 53
COLUMNS = {
    "process": "beta: an alpha a round; beta-token: an alpha a token; markov: two kinds of text",
    "sd": "standard deviation of alpha over rounds (beta-token: over tokens)",
    "gamma": "drafted tokens of a round",
    "mean_alpha": "mean acceptance rate over rounds",
    "pooled_alpha": "simulated accepted over tested tokens",
    "tokens_per_pass": "simulated tokens per target pass",
    "tokens_per_pass_low": "its lower 95 % bound",
    "tokens_per_pass_high": "its upper 95 % bound",
    "predicted_tokens_per_pass": "closed form of the mixture",
    "iid_tokens_per_pass": "formula of a constant alpha at the mean alpha",
    "pooled_iid_tokens_per_pass": "formula of a constant alpha at the pooled alpha",
    "pooled_error": "pooled_iid over predicted tokens per pass, less 1",
}
ALPHA = 0.75
SPREADS = (0.02, 0.05, 0.1, 0.15, 0.2)


def point(process: str, sd: float, gamma: int) -> dict[str, Any]:
    if process == "markov":
        return {"process": process, "spread": sd, "stay": 0.9, "gamma": gamma}
    # sd^2 = mean (1 - mean) / (concentration + 1) of a Beta law
    concentration = ALPHA * (1 - ALPHA) / sd**2 - 1
    return {"process": process, "concentration": concentration, "gamma": gamma}


def make(quick: bool) -> Study:
    common = {
        "alpha": ALPHA,
        "stop": "rounds",
        "length": 50 if quick else 2000,
        "runs": 20 if quick else 100,
    }
    axes = grid({"process": ["beta", "beta-token", "markov"], "sd": SPREADS, "gamma": [2, 4, 8]})
    points = [{**common, **point(**axis)} for axis in axes]
    rows = [
        study_row(axis, row)
        for axis, row in zip(axes, run_sweep(setting_row, points, seed=SEED), strict=True)
    ]
    return Study(
        title="what one pooled acceptance rate hides",
        parameters={**common, "stay": 0.9, "seed": SEED},
        columns=COLUMNS,
        rows=rows,
    )


def study_row(axis: dict[str, Any], row: dict[str, Any]) -> dict[str, Any]:
    pooled = expected_accepted_tokens(row["acceptance_rate"], axis["gamma"])
    return {
        **axis,
        **{key: row[key] for key in COLUMNS if key in row},
        "mean_alpha": ALPHA,
        "pooled_alpha": row["acceptance_rate"],
        "iid_tokens_per_pass": expected_accepted_tokens(ALPHA, axis["gamma"]),
        "pooled_iid_tokens_per_pass": pooled,
        "pooled_error": pooled / row["predicted_tokens_per_pass"] - 1,
    }


if __name__ == "__main__":
    study_main(__file__, make)
