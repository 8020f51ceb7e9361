"""Third-party verification steps, traced exactly and compared with samples of the same code.

Each case draws its drafts, calls the library, and returns the emitted tokens. Its exact law is
found by the tracer, or refused by name; the same callable, run with real randomness 200,000 times,
must then agree with that law by a chi-square test. Only what is installed is run; reports are
merged by name, so that every library may live in an environment of its own.

Usage: python simulations/exact_libraries.py [--only LIBRARY ...] [--samples N] [--out DIRECTORY]
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import json
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import torch
from exact_library_cases import CASES, GAMMA, TARGET, VOCAB, Case, Run

from specverify.errors import UnsupportedRandomness
from specverify.exact import ExactLaw, enumerate_law
from specverify.exact.completion import completed_excess
from specverify.stats.goodness import pooled_chi_square

DEFAULT_OUTPUT = Path(__file__).resolve().parent.parent / "reports"
SEED, LEVEL, SAMPLES = 11, 1e-6, 200_000
# The libraries compute in float32.
ROUNDING = 1e-6


def sampled(run: Run, *, samples: int, batch: int) -> Counter[tuple[int, ...]]:
    """How often each block came out of real runs."""
    torch.manual_seed(SEED)
    counts: Counter[tuple[int, ...]] = Counter()
    for _ in range(samples // batch):
        counts.update(map(tuple, run(batch)))
    return counts


def agreement(law: ExactLaw, counts: Counter[tuple[int, ...]]) -> dict[str, Any]:
    """Chi-square of samples against the exact law; an outcome outside of it is a disagreement."""
    outcomes = sorted(law.probabilities)
    observed = np.array([counts[outcome] for outcome in outcomes])
    probs = np.array([law.probabilities[outcome] for outcome in outcomes])
    test = pooled_chi_square(observed, probs / probs.sum())
    outside = counts.total() - int(observed.sum())
    agrees = outside == 0 and test.p_value >= LEVEL
    return {
        "samples": counts.total(),
        "statistic": test.statistic,
        "dof": test.dof,
        "p_value": test.p_value,
        "outside": outside,
        "agrees": agrees,
    }


def audit_case(case: Case, samples: int) -> dict[str, Any]:
    """One row of the table."""
    versions = {name: importlib.metadata.version(name) for name in (case.package, "torch")}
    row: dict[str, Any] = {"library": case.package, "function": case.function, "versions": versions}
    run = case.make()
    try:
        law = enumerate_law(lambda: run(1)[0])
    except UnsupportedRandomness as error:
        return row | {"verdict": "refused", "reason": f"{error}"}
    rows = TARGET.double().numpy()
    rows = rows / rows.sum(axis=1, keepdims=True)  # float32 rows miss one by their rounding
    excess = completed_excess(law.probabilities, lambda s: rows[len(s)], GAMMA + 1)
    low = excess + law.exception_mass
    start = time.process_time()
    row |= agreement(law, sampled(run, samples=samples, batch=case.batch))
    return row | {
        "tv_low": low,
        "tv_high": min(1.0, low + law.unexplored_mass),
        "paths": law.paths,
        "seconds_traced": round(law.seconds, 2),
        "seconds_sampled": round(time.process_time() - start, 1),
        "verdict": "biased" if low > ROUNDING else "lossless" if law.complete else "open",
    }


def markdown(rows: dict[str, dict[str, Any]]) -> str:
    """The report for people."""
    lines = [
        "# Third-party verifiers, traced exactly",
        "",
        "Written by `python simulations/exact_libraries.py`.",
        "",
        f"V = {VOCAB}, gamma = {GAMMA}, float32, rows that differ by position; biased above",
        f"{ROUNDING:g}. `agreement`: chi-square of real runs of the same code against the exact",
        f"law, level {LEVEL:g}, seed {SEED}.",
        "",
        "| function | versions | TV | paths | CPU s | verdict | samples | agreement |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, row in sorted(rows.items()):
        versions = ", ".join(row["versions"].values())
        if row["verdict"] == "refused":
            lines.append(f"| {name} | {versions} | - | - | - | refused: {row['reason']} | - | - |")
            continue
        word = "agrees" if row["agrees"] else "DISAGREES"
        lines.append(
            f"| {name} | {versions} | {row['tv_low']:.1e} | {row['paths']} | "
            f"{row['seconds_traced']} | {row['verdict']} | {row['samples']} | "
            f"{word}, p = {row['p_value']:.2g} |"
        )
    return "\n".join(lines) + "\n"


def main(arguments: list[str] | None = None) -> dict[str, dict[str, Any]]:
    """Run what is installed and merge it into the reports."""
    parser = argparse.ArgumentParser(description="Trace third-party verifiers and sample them.")
    parser.add_argument("--only", nargs="*", default=[], help="packages by name")
    parser.add_argument("--samples", type=int, default=SAMPLES, help="real runs of each function")
    parser.add_argument("--out", type=Path, default=DEFAULT_OUTPUT, help="directory of the reports")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    report = options.out / "exact_libraries.json"
    rows: dict[str, dict[str, Any]] = json.loads(report.read_text()) if report.exists() else {}
    for case in CASES:
        if options.only and case.package not in options.only:
            continue
        if importlib.util.find_spec(case.module) is None:
            print(f"missing: pip install {case.package}", file=sys.stderr)
            continue
        rows[case.name] = audit_case(case, options.samples)
        print(case.name, json.dumps(rows[case.name]), file=sys.stderr, flush=True)
        options.out.mkdir(parents=True, exist_ok=True)
        report.write_text(json.dumps(rows, indent=1, sort_keys=True) + "\n")
        (options.out / "exact_libraries.md").write_text(markdown(rows))
    return rows


if __name__ == "__main__":
    main()
