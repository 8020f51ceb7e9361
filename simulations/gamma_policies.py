"""Policies of draft length over kinds of text and draft costs: what does adapting gamma earn?

The fixed length is the best one for the process; the threshold is the best of a few; the optimal
stopping rule knows the chance of every token, as a perfectly calibrated draft would.

Usage: python simulations/gamma_policies.py [--quick] [OUTPUT.json]
"""

from __future__ import annotations

from typing import Any

from specverify.simulate.predictions import predict
from specverify.simulate.setting import Setting
from specverify.simulate.simulation import setting_row
from specverify.simulate.study import Study, study_main
from specverify.simulate.sweeps import run_sweep

SEED, ALPHA = 55, 0.75
PROCESSES: dict[str, dict[str, Any]] = {
    "constant": {"process": "constant"},
    "by round": {"process": "beta", "concentration": 3.0},
    "by token": {"process": "beta-token", "concentration": 1.0},
    "stretches": {"process": "markov", "spread": 0.2, "stay": 0.95},
}
COSTS = (0.02, 0.1, 0.3)
THRESHOLDS = (0.2, 0.4, 0.6, 0.8)
COLUMNS = {
    "text": "how alpha varies: not at all, by round, by token, or in stretches of rounds",
    "c": "cost of a draft step over that of a target step",
    "policy": "fixed, schedule (+2/-1), threshold (confidence) or optimal (stopping)",
    "parameter": "the fixed gamma, the schedule's first one, the threshold; none for optimal",
    "tokens_per_pass": "simulated tokens per target pass",
    "tokens_per_pass_low": "its lower 95 % bound",
    "tokens_per_pass_high": "its upper 95 % bound",
    "drafted_per_pass": "simulated drafted tokens per target pass",
    "speedup": "simulated plain time over speculative time",
    "speedup_low": "its lower 95 % bound",
    "speedup_high": "its upper 95 % bound",
}


def best_fixed(values: dict[str, Any]) -> int:
    def speedup(gamma: int) -> float:
        found = predict(Setting.of({**values, "gamma": gamma}))
        assert found is not None
        return found.speedup

    return max(range(1, 21), key=speedup)


def policies(values: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {**values, "policy": "fixed", "gamma": best_fixed(values)},
        {**values, "policy": "schedule", "gamma": 5},
        *({**values, "policy": "threshold", "threshold": level} for level in THRESHOLDS),
        {**values, "policy": "optimal"},
    ]


PARAMETER = {"fixed": "gamma", "schedule": "gamma", "threshold": "threshold", "optimal": ""}


def make(quick: bool) -> Study:
    common = {"alpha": ALPHA, "stop": "rounds", "length": 100, "runs": 20 if quick else 200}
    cells = [(text, c) for text in PROCESSES for c in COSTS]
    points = [policies({**common, **PROCESSES[text], "c": c}) for text, c in cells]
    found = iter(run_sweep(setting_row, [p for cell in points for p in cell], seed=SEED))
    rows = [
        row
        for (text, c), cell in zip(cells, points, strict=True)
        for row in study_rows(text, c, [next(found) for _ in cell])
    ]
    return Study(
        title="what adapting the draft length earns",
        parameters={**common, "thresholds": THRESHOLDS, "processes": PROCESSES, "seed": SEED},
        columns=COLUMNS,
        rows=rows,
    )


def study_rows(text: str, c: float, found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row a policy, the best threshold alone among the thresholds."""
    best = max((r for r in found if r["policy"] == "threshold"), key=lambda row: row["speedup"])
    return [
        {key: row[key] for key in COLUMNS if key in row}
        | {
            "text": text,
            "c": c,
            "parameter": row.get(PARAMETER[row["policy"]]),
            "drafted_per_pass": row["drafted_per_pass"],
        }
        for row in found
        if row["policy"] != "threshold" or row is best
    ]


if __name__ == "__main__":
    study_main(__file__, make)
