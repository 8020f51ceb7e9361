"""Document B's table: simulated means beside the exact law of the same experiment.

100 tokens, 5 draft tokens a round, 5 ms a draft step, 100 ms a target pass, 50 runs for each
acceptance rate; no bonus token, and the whole last round counts.

Usage: python simulations/document_b_simulator.py [OUTPUT.json]
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from specverify.simulate.document_b import SimulatedSpeculativeDecoder
from specverify.theory.emitted_length import emitted_length_pmf
from specverify.theory.stopped_decode import Moments, stopped_decode_law

DEFAULT_OUTPUT = Path(__file__).resolve().parent.parent / "reports" / "document_b_simulator.json"
ALPHAS = (0.5, 0.6, 0.7, 0.8, 0.9)
TOTAL_TOKENS, NUM_DRAFT, DRAFT_MS, TARGET_MS = 100, 5, 5.0, 100.0
RUNS, SEED, VOCAB_SIZE = 50, 20, 50257


def study(alpha: float, generator: np.random.Generator) -> dict[str, Any]:
    decoder = SimulatedSpeculativeDecoder(alpha, VOCAB_SIZE, generator=generator)
    results = [
        decoder.simulate_generation(TOTAL_TOKENS, NUM_DRAFT, DRAFT_MS, TARGET_MS)
        for _ in range(RUNS)
    ]
    pmf = emitted_length_pmf(alpha, NUM_DRAFT, bonus=False)
    law = stopped_decode_law(pmf, TOTAL_TOKENS)
    speedup = law.speedup(num_draft=NUM_DRAFT, draft_time=DRAFT_MS, target_time=TARGET_MS)
    return {
        "alpha": alpha,
        "tokens_per_round": beside([r.tokens_per_round for r in results], law.tokens_per_round()),
        "speedup": beside([r.speedup for r in results], speedup),
    }


def beside(values: list[float], exact: Moments) -> dict[str, float]:
    mean = float(np.mean(values))
    return {
        "simulated_mean": mean,
        "simulated_sd": float(np.std(values, ddof=1)),
        "exact_mean": exact.mean,
        "exact_sd": exact.sd,
        "standard_errors_apart": (mean - exact.mean) / (exact.sd / len(values) ** 0.5),
    }


def main(output: Path = DEFAULT_OUTPUT) -> None:
    generators = np.random.default_rng(SEED).spawn(len(ALPHAS))
    content = {
        "study": "document B's simulator against its exact law",
        "parameters": {
            "total_tokens": TOTAL_TOKENS,
            "num_draft": NUM_DRAFT,
            "draft_time_ms": DRAFT_MS,
            "target_time_ms": TARGET_MS,
            "runs": RUNS,
            "seed": SEED,
        },
        "rows": [
            study(alpha, generator) for alpha, generator in zip(ALPHAS, generators, strict=True)
        ],
    }
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(content, indent=2, allow_nan=False) + "\n")
    print(f"wrote {output}")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:2]))
