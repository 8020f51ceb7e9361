"""The shipped GPT pair, measured against theory over the draft length.

Three files: what a seed decides (``gpt_pair.json``: tokens per pass; ``gpt_pair_positions.json``:
acceptance by position) and what the machine decides (``gpt_pair_times.json``: speedup, its
prediction, and the factors between the formula and the measurement).

Usage: python simulations/gpt_pair.py [--quick] [OUTPUT.json]
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from specverify.models.acceptance_profile import Estimate
from specverify.models.attribution import to_blame
from specverify.models.measure import PairMeasurement, measure_pair
from specverify.models.pairs import load_pair
from specverify.simulate.study import Study, write_study

NAME = Path(__file__).stem
DEFAULT_OUTPUT = Path(__file__).resolve().parent.parent / "reports" / f"{NAME}.json"
SEED = 57
BOUNDS = {"_low": "its lower 95 % bound", "_high": "its upper 95 % bound"}


def with_bounds(columns: dict[str, str]) -> dict[str, str]:
    return {
        name + end: text if not end else bound
        for name, text in columns.items()
        for end, bound in {"": "", **BOUNDS}.items()
    }


def bounded(name: str, estimate: Estimate) -> dict[str, float]:
    return {name: estimate.value, f"{name}_low": estimate.low, f"{name}_high": estimate.high}


COUNTS = {
    "gamma": "drafted tokens of a pass",
    "passes": "passes that drafted so many",
    **with_bounds(
        {
            "alpha": "mean overlap of target and draft along the texts",
            "tokens_per_pass": "measured tokens per target pass",
            "predicted_tokens_per_pass": "predicted from the known alpha of every tested token",
        }
    ),
    "iid_tokens_per_pass": "formula of a constant alpha",
    "as_predicted": "whether the measured value lies within the prediction's bounds",
}
POSITIONS = {
    "gamma": "drafted tokens of a pass",
    "position": "place of the token in the block, from 1",
    **with_bounds({"alpha": "acceptance rate, given that all before were accepted"}),
}
FACTORS = (
    "formula",
    "heterogeneity",
    "chance",
    "last passes",
    "prompt",
    "cache",
    "plain overhead",
    "speculative overhead",
)
TIMES = {
    "gamma": "drafted tokens of a pass",
    "c": "seconds of a draft step over those of a target step",
    "verify_cost": "seconds of a pass over gamma + 1 tokens over those of a target step",
    "plain_ms": "milliseconds a token, plain decoding",
    "speculative_ms": "milliseconds a token, speculative decoding",
    **with_bounds(
        {
            "speedup": "measured plain over speculative time",
            "predicted_speedup": "predicted tokens per pass over gamma c + verify_cost",
        }
    ),
    "inside": "whether the measured speedup lies within the prediction's bounds",
    "to_blame": "largest factor between prediction and measurement",
    "to_blame_factor": "what it multiplies the speedup by",
    **{
        f"factor_{name.replace(' ', '_')}": f"factor of the measured speedup: {name}"
        for name in FACTORS
    },
}


def counts_row(result: PairMeasurement) -> dict[str, Any]:
    assert result.alpha_bounds is not None
    return {
        "gamma": result.gamma,
        "passes": result.passes,
        **bounded("alpha", result.alpha_bounds),
        **bounded("tokens_per_pass", result.tokens_per_pass),
        **bounded("predicted_tokens_per_pass", result.predicted_tokens_per_pass),
        "iid_tokens_per_pass": result.iid_tokens_per_pass,
        "as_predicted": result.as_predicted,
    }


def position_rows(result: PairMeasurement) -> list[dict[str, Any]]:
    return [
        {"gamma": result.gamma, "position": place, **bounded("alpha", rate)}
        for place, rate in enumerate(result.alpha_by_position, start=1)
    ]


def times_row(result: PairMeasurement) -> dict[str, Any]:
    assert result.predicted_speedup_bounds is not None
    blamed = to_blame(result.terms)
    return {
        "gamma": result.gamma,
        "c": result.costs.draft_ratio,
        "verify_cost": result.costs.verify_ratio,
        "plain_ms": 1e3 * result.plain_seconds,
        "speculative_ms": 1e3 * result.speculative_seconds,
        **bounded("speedup", result.speedup),
        **bounded("predicted_speedup", result.predicted_speedup_bounds),
        "inside": result.speedup_as_predicted,
        "to_blame": blamed.name,
        "to_blame_factor": blamed.factor,
        **{f"factor_{term.name.replace(' ', '_')}": term.factor for term in result.terms},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer texts, for tests")
    parser.add_argument("output", type=Path, nargs="?", default=DEFAULT_OUTPUT)
    options = parser.parse_args()
    gammas = (2,) if options.quick else (1, 2, 3, 4, 6, 8)
    size: dict[str, Any] = {
        "max_new_tokens": 12 if options.quick else 48,
        "rounds": 1 if options.quick else 2,
    }
    pair = load_pair()
    found = [measure_pair(pair, gamma=gamma, seed=SEED, **size) for gamma in gammas]
    parameters = {"pair": pair.name, "prompts": found[0].prompts, **size, "seed": SEED}
    for name, title, columns, rows in (
        (NAME, "tokens per pass of the GPT pair", COUNTS, [counts_row(r) for r in found]),
        (
            f"{NAME}_positions",
            "acceptance by position of the GPT pair",
            POSITIONS,
            [row for result in found for row in position_rows(result)],
        ),
        (f"{NAME}_times", "speedup of the GPT pair", TIMES, [times_row(r) for r in found]),
    ):
        study = Study(title=title, parameters=parameters, columns=columns, rows=rows)
        path = options.output.with_name(options.output.name.replace(NAME, name))
        write_study(path, name, study, script=NAME, quick=options.quick)
        print(f"wrote {path} ({len(rows)} rows)")


if __name__ == "__main__":
    main()
