"""How many tokens a round emits: simulated shares against the exact law, by kind of text.

Usage: python simulations/emitted_length.py [--quick] [OUTPUT.json]
"""

from __future__ import annotations

from typing import Any

import numpy as np

from specverify.simulate.acceptance import BulkAcceptance
from specverify.simulate.predictions import length_pmf
from specverify.simulate.setting import Setting
from specverify.simulate.study import Study, study_main
from specverify.simulate.sweeps import Point, run_sweep
from specverify.stats.intervals import clopper_pearson

SEED, GAMMA = 56, 6
TEXTS: dict[str, dict[str, Any]] = {
    "constant": {"alpha": 0.8},
    "falling along the block": {"alpha": [0.9, 0.85, 0.8, 0.7, 0.6, 0.5]},
    "by round": {"alpha": 0.8, "process": "beta", "concentration": 3.0},
    "stretches": {"alpha": 0.75, "process": "markov", "spread": 0.2, "stay": 0.9},
}
COLUMNS = {
    "text": "how alpha varies: not at all, by position, by round, or in stretches of rounds",
    "tokens": "tokens that a round emits",
    "rounds": "simulated rounds that emitted so many",
    "share": "the same over all simulated rounds",
    "share_low": "its lower bound; with all others of its text, 95 % (Bonferroni)",
    "share_high": "its upper bound, likewise",
    "exact": "exact probability",
}


def task(point: Point, generator: np.random.Generator) -> dict[str, Any]:
    process = Setting.of(TEXTS[point["text"]]).acceptance_process()
    assert isinstance(process, BulkAcceptance)
    state = process.start(generator, point["rounds"])
    rounds = np.ones(point["rounds"], dtype=np.int64)
    counts, _ = process.accepted_counts(generator, state, rounds, GAMMA)
    exact = length_pmf(process, GAMMA)
    assert exact is not None
    return {"counts": counts.sum(axis=0).tolist(), "exact": exact.tolist()}


def make(quick: bool) -> Study:
    rounds = 2_000 if quick else 200_000
    # One round a run: then rounds are independent in stretches of text, too.
    points = [{"text": text, "rounds": rounds} for text in TEXTS]
    found = run_sweep(task, points, seed=SEED)
    rows = [
        row for text, result in zip(TEXTS, found, strict=True) for row in study_rows(text, result)
    ]
    return Study(
        title="how many tokens a round emits",
        parameters={"gamma": GAMMA, "rounds": rounds, "texts": TEXTS, "seed": SEED},
        columns=COLUMNS,
        rows=rows,
    )


def study_rows(text: str, result: dict[str, Any]) -> list[dict[str, Any]]:
    counts, total = result["counts"], sum(result["counts"])
    confidence = 1 - 0.05 / len(counts)
    bounds = [clopper_pearson(count, total, confidence=confidence) for count in counts]
    return [
        {
            "text": text,
            "tokens": tokens,
            "rounds": count,
            "share": count / total,
            "share_low": low,
            "share_high": high,
            "exact": exact,
        }
        for tokens, (count, (low, high), exact) in enumerate(
            zip(counts, bounds, result["exact"], strict=True), start=1
        )
    ]


if __name__ == "__main__":
    study_main(__file__, make)
