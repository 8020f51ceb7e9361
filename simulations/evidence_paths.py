"""The e-process after every token: right samplers beside bugs of several sizes.

One context; the bets are those of the audit's statistics, told the zoo's laws but never which bug
is at work. Kept at tokens spaced evenly on a logarithmic axis.

Usage: python simulations/evidence_paths.py [OUTPUT.json]
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from specverify.bugs.registry import ZOO
from specverify.distributions import total_variation
from specverify.stats.context import ContextBets
from specverify.stats.synthetic import zipf_pair

DEFAULT_OUTPUT = Path(__file__).resolve().parent.parent / "reports" / "evidence_paths.json"
SEED, VOCAB_SIZE, TOKENS, LEVEL = 43, 128, 20_000, 1e-6
RUNS = {"reference": 8, "resample_from_target": 3, "temperature_on_draft": 3, "reused_uniform": 3}
_FAR = 60.0  # log10 e beyond which nobody looks


def law_of(name: str, target: Any, draft: Any) -> Any:
    if name == "reference":
        return target
    row_law = ZOO[name].row_law
    assert row_law is not None
    return np.asarray(row_law(target, draft), dtype=np.float64)


def known_laws(target: Any, draft: Any) -> dict[str, Any]:
    """Closed-form laws of the zoo that are laws here and not the target."""
    laws = {name: law_of(name, target, draft) for name, bug in ZOO.items() if bug.row_law}
    return {
        name: law
        for name, law in laws.items()
        if abs(law.sum() - 1) < 1e-9 and float(total_variation(law, target)) > 1e-9
    }


def path(bets: ContextBets, law: Any, generator: np.random.Generator, kept: Any) -> list[float]:
    """Common logarithm of the e-value after each kept token."""
    tokens = generator.choice(VOCAB_SIZE, size=TOKENS, p=law)
    log_e = bets.path(tokens)[kept - 1] / np.log(10)
    return [round(float(value), 4) for value in np.minimum(log_e, _FAR)]


def main(output: Path = DEFAULT_OUTPUT) -> None:
    laws_rng, *generators = np.random.default_rng(SEED).spawn(1 + len(RUNS))
    target, draft = zipf_pair(VOCAB_SIZE, laws_rng)
    bets = ContextBets(target, draft, alternatives=known_laws(target, draft))
    kept = np.unique(np.geomspace(1, TOKENS, 150).astype(np.int64))
    rows = []
    for (name, runs), generator in zip(RUNS.items(), generators, strict=True):
        law = law_of(name, target, draft)
        paths = [path(bets, law, child, kept) for child in generator.spawn(runs)]
        tv = float(total_variation(law, target))
        rows.append({"implementation": name, "tv": tv, "log10_e": paths})
    content = {
        "study": "evidence_paths",
        "command": "python simulations/evidence_paths.py",
        "parameters": {
            "seed": SEED,
            "vocab_size": VOCAB_SIZE,
            "level": LEVEL,
            "log10_e_shown_up_to": _FAR,
            "tokens": kept.tolist(),
        },
        "rows": rows,
    }
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(content, allow_nan=False) + "\n")
    print(f"wrote {output}")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:2]))
