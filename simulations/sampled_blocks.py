"""Blocks of the reference and of two planted bugs, counted beside their exact laws.

Every position has laws of its own, so that a row taken twice or one too late would show. Counted
are the first token, the emitted length, and how many drafts were accepted of those tested at each
position.

Usage: python simulations/sampled_blocks.py [OUTPUT.json]
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from specverify.bugs.registry import ZOO
from specverify.distributions import acceptance_rate
from specverify.sampler.batched import verify_blocks
from specverify.sampler.draws import sample_categorical
from specverify.stats.synthetic import zipf_pair
from specverify.theory.emitted_length import emitted_length_pmf

DEFAULT_OUTPUT = Path(__file__).resolve().parent.parent / "reports" / "sampled_blocks.json"
SEED, BLOCKS, VOCAB_SIZE = 41, 200_000, 12
ALPHAS = (0.9, 0.8, 0.7, 0.6)
GAMMA = len(ALPHAS)
BUGS = ("resample_from_target", "accept_below_target")

Verifier = Callable[[Any, Any, Any, np.random.Generator], Any]


def rows(generator: np.random.Generator) -> tuple[Any, Any]:
    """Target rows ``(GAMMA + 1, VOCAB_SIZE)`` and draft rows ``(GAMMA, VOCAB_SIZE)``."""
    pairs = [zipf_pair(VOCAB_SIZE, generator, alpha=alpha) for alpha in (*ALPHAS, 0.8)]
    targets, drafts = (np.array(laws) for laws in zip(*pairs, strict=True))
    return targets, drafts[:GAMMA]


def counted(
    verifier: Verifier, target: Any, draft: Any, generator: np.random.Generator
) -> dict[str, Any]:
    """Counts of ``BLOCKS`` blocks, the drafts drawn here."""
    wide = np.broadcast_to(draft, (BLOCKS, *draft.shape))
    drafts = sample_categorical(wide, generator)
    emitted = verifier(np.broadcast_to(target, (BLOCKS, *target.shape)), wide, drafts, generator)[0]
    lengths = np.sum(emitted >= 0, axis=1)
    # What a block did is read off its length: its last token was not drafted, the others were.
    tested = [int(np.sum(lengths > position)) for position in range(GAMMA)]
    accepted = [int(np.sum(lengths > position + 1)) for position in range(GAMMA)]
    return {
        "first_tokens": np.bincount(emitted[:, 0], minlength=VOCAB_SIZE).tolist(),
        "lengths": np.bincount(lengths, minlength=GAMMA + 2)[1:].tolist(),
        "tested": tested,
        "accepted": accepted,
    }


def main(output: Path = DEFAULT_OUTPUT) -> None:
    laws, *generators = np.random.default_rng(SEED).spawn(2 + len(BUGS))
    target, draft = rows(laws)
    alphas = [float(acceptance_rate(*pair)) for pair in zip(target[:GAMMA], draft, strict=True)]
    verifiers: dict[str, Verifier] = {"reference": verify_blocks}
    verifiers |= {name: ZOO[name].callable for name in BUGS}
    content = {
        "study": "sampled_blocks",
        "command": "python simulations/sampled_blocks.py",
        "parameters": {
            "seed": SEED,
            "blocks": BLOCKS,
            "vocab_size": VOCAB_SIZE,
            "gamma": GAMMA,
            "first_token_probs": target[0].tolist(),
            "acceptance": alphas,
            "length_pmf": emitted_length_pmf(alphas).tolist(),
        },
        "rows": [
            {"implementation": name, **counted(verifier, target, draft, generator)}
            for (name, verifier), generator in zip(verifiers.items(), generators, strict=True)
        ],
    }
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(content, indent=1, allow_nan=False) + "\n")
    print(f"wrote {output}")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:2]))
