"""From which batch on does speculation lose? A roofline: reading weights, then arithmetic, binds.

Usage: python simulations/batch_crossover.py [--quick] [OUTPUT.json]
"""

from __future__ import annotations

from specverify.simulate.predictions import predict
from specverify.simulate.setting import Setting
from specverify.simulate.simulation import setting_row
from specverify.simulate.study import Study, study_main
from specverify.simulate.sweeps import grid, run_sweep

SEED, MOST = 52, 4096
ALPHA, C, TOKEN_TIME = 0.8, 0.05, 0.01
COLUMNS = {
    "gamma": "drafted tokens of a round",
    "batch": "sequences decoded together",
    "tokens_per_pass": "simulated tokens per target pass and sequence",
    "speedup": "simulated plain time over speculative time",
    "speedup_low": "its lower 95 % bound",
    "speedup_high": "its upper 95 % bound",
    "predicted_speedup": "closed form of the same roofline",
    "crossover_batch": "smallest batch at which the predicted speedup is at most 1",
}


def crossover(gamma: int) -> int | None:
    """Once lost, the gain stays lost (its limit is tokens per pass over gamma + 1): bisection."""

    def loses(batch: int) -> bool:
        found = predict(Setting(**COMMON, gamma=gamma, batch=batch))  # type: ignore[arg-type]
        return found is not None and found.speedup <= 1

    low, high = 1, MOST
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if loses(middle) else (middle + 1, high)
    return low if loses(low) else None


COMMON = {
    "alpha": ALPHA,
    "c": C,
    "timing": "roofline",
    "token_time": TOKEN_TIME,
    "stop": "rounds",
    "length": 100,
}


def make(quick: bool) -> Study:
    common = {**COMMON, "runs": 20 if quick else 200}
    axes = {"gamma": [1, 2, 4, 8], "batch": [1, 2, 4, 8, 16, 32, 48, 64, 96, 128, 192, 256]}
    points = [{**common, **point} for point in grid(axes)]
    crossings = {gamma: crossover(gamma) for gamma in axes["gamma"]}
    rows = [
        {**{key: row[key] for key in COLUMNS if key in row}, "crossover_batch": crossings[gamma]}
        for row in run_sweep(setting_row, points, seed=SEED)
        for gamma in [row["gamma"]]
    ]
    return Study(
        title="where the batch ends the gain",
        parameters={**common, "seed": SEED},
        columns=COLUMNS,
        rows=rows,
    )


if __name__ == "__main__":
    study_main(__file__, make)
