"""Tokens per pass and speedup against theory, over acceptance rate, draft length and draft cost.

Usage: python simulations/speedup_vs_theory.py [--quick] [OUTPUT.json]
"""

from __future__ import annotations

from specverify.simulate.simulation import setting_row
from specverify.simulate.study import Study, study_main
from specverify.simulate.sweeps import grid, run_sweep
from specverify.theory.optimal_gamma import optimal_gamma

SEED, MAX_GAMMA = 51, 10
COLUMNS = {
    "alpha": "acceptance rate, the same for every token",
    "gamma": "drafted tokens of a round",
    "c": "cost of a draft step over that of a target step",
    "tokens_per_pass": "simulated tokens per target pass",
    "tokens_per_pass_low": "its lower 95 % bound",
    "tokens_per_pass_high": "its upper 95 % bound",
    "predicted_tokens_per_pass": "(1 - alpha^(gamma+1)) / (1 - alpha)",
    "speedup": "simulated plain time over speculative time",
    "speedup_low": "its lower 95 % bound",
    "speedup_high": "its upper 95 % bound",
    "predicted_speedup": "predicted tokens per pass over gamma c + 1",
    "optimal_gamma": "gamma of the largest predicted speedup, up to 10",
}


def make(quick: bool) -> Study:
    common = {
        "timing": "gamma",
        "variation": 0.2,
        "stop": "rounds",
        "length": 20 if quick else 500,
        "runs": 20 if quick else 100,
    }
    axes = {"alpha": [0.4, 0.6, 0.8, 0.9], "c": [0.05, 0.1, 0.3], "gamma": range(1, MAX_GAMMA + 1)}
    points = [{**common, **point} for point in grid(axes)]
    rows = [
        {key: row[key] for key in COLUMNS if key in row}
        | {"optimal_gamma": optimal_gamma(row["alpha"], row["c"], max_gamma=MAX_GAMMA)}
        for row in run_sweep(setting_row, points, seed=SEED)
    ]
    title = "tokens per pass and speedup against theory"
    return Study(title=title, parameters={**common, "seed": SEED}, columns=COLUMNS, rows=rows)


if __name__ == "__main__":
    study_main(__file__, make)
