"""How fast llama.cpp completes the tiny pair in this process, and whether what comes out is right.

For each way of drafting: seconds, accepted drafts, the law of the first two tokens, and completions
that come back short where prompt and completion fill the context exactly.

Usage: python simulations/llama_completions.py [--quick] [OUTPUT.json]
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from specverify.adapters.llama_cpp import LlamaCppEngine
from specverify.audit.evidence import Stratum, weigh
from specverify.errors import InvalidEmissionError
from specverify.warping import SamplingParams

OUTPUT = Path(__file__).resolve().parent.parent / "reports" / "engines" / "llama_completions.json"
MODES = ("probabilistic", "sample-and-match", "plain")
COMPLETIONS, QUICK = 60_000, 480
LENGTH, GAMMA, SLOTS, SEED = 4, 3, 12, 57
CONTEXT, TEXTS = 64, 60
FEWEST = 5.0  # expected in a cell
PROMPT = [3, 1, 4, 1, 5]
PLAIN = SamplingParams()


def measure(mode: str, completions: int) -> dict[str, Any]:
    """Draw completions of one mode and time them."""
    engine = LlamaCppEngine(mode=mode, gamma=GAMMA, slots=SLOTS)
    engine.sample(PROMPT, SLOTS, LENGTH, PLAIN, SEED)  # the prompt is in every slot's cache then
    clocks = time.perf_counter(), time.process_time()
    drawn = engine.sample(PROMPT, completions, LENGTH, PLAIN, SEED)
    seconds, cpu_seconds = time.perf_counter() - clocks[0], time.process_time() - clocks[1]
    drafted = 0 if drawn.drafted is None else int(drawn.drafted.sum())
    accepted = 0 if drawn.accepted is None else int(drawn.accepted.sum())
    return {
        "mode": mode,
        "completions": completions,
        "seconds": round(seconds, 1),
        "cpu_seconds": round(cpu_seconds, 1),
        "per_second": round(completions / seconds),
        "drafted": drafted,
        "accepted": accepted,
        "accepted_over_drafted": round(accepted / drafted, 4) if drafted else None,
        **law_of_two(engine, drawn.tokens),
        "cut_short": cut_short(mode),
        "cut_short_of": TEXTS,
    }


def law_of_two(engine: LlamaCppEngine, tokens: np.ndarray) -> dict[str, float]:
    """The first two tokens against their joint law: chi-square, and the total variation's bound."""
    law = engine.reference()
    vocab = engine.describe().vocab_size or 0
    texts = np.stack([np.arange(vocab), np.zeros(vocab, np.int64)], axis=1)
    rows = law.probs(PROMPT, texts, PLAIN)
    joint = (rows[0, 0][:, None] * rows[:, 1]).reshape(-1)
    counts = np.bincount(tokens[:, 0] * vocab + tokens[:, 1], minlength=vocab**2)
    often = len(tokens) * joint >= FEWEST
    cells = [np.append(side[often], side[~often].sum()) for side in (counts, joint)]
    found = weigh([Stratum(*cells)])
    return {
        "chi_square_p": round(found.chi_square_p, 4),
        "cells": len(cells[0]),
        "tv_at_most": round(found.tv.high or 1.0, 4),
    }


def cut_short(mode: str) -> int:
    """Completions that are short although prompt and completion fit the context exactly."""
    engine = LlamaCppEngine(mode=mode, gamma=GAMMA)
    return sum(_is_cut(engine, seed) for seed in range(TEXTS))


def _is_cut(engine: LlamaCppEngine, seed: int) -> bool:
    try:
        engine.sample(PROMPT, 1, CONTEXT - len(PROMPT), PLAIN, seed)
    except InvalidEmissionError:
        return True
    return False


def main(arguments: list[str] | None = None) -> None:
    """Measure every mode, print a line each, write the report."""
    parser = argparse.ArgumentParser(description="Time llama.cpp on the tiny pair.")
    parser.add_argument("--quick", action="store_true", help="fewer completions, for tests")
    parser.add_argument("output", type=Path, nargs="?", default=OUTPUT)
    options = parser.parse_args(arguments)
    rows = []
    for mode in MODES:
        row = measure(mode, QUICK if options.quick else COMPLETIONS)
        rows.append(row)
        print("  ".join(f"{key} {value}" for key, value in row.items()), flush=True)
    told = {"tokens": LENGTH, "gamma": GAMMA, "slots": SLOTS, "seed": SEED}
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps({"settings": told, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
