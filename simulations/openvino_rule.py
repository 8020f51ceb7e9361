"""OpenVINO GenAI's verification of drafts as its source reads, beside the tokens that it emits.

The pipeline with a draft model and ``do_sample`` departs from the target's law. Its generators can
be followed draw by draw (``std::mt19937``, one for the target and one for the draft), so that a
reading of its rule predicts every token of a request from the request's seed. Four readings are
compared with the first two tokens of each request at one drafted token a pass: the rule as read,
and three that each put one of its departures right.

Usage: python simulations/openvino_rule.py [--n 4000] [--out reports/engines/openvino_rule.json]
(in an environment with openvino-genai; `make engines` makes one under runs/engines/)
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specverify.distributions import residual_distribution
from specverify.warping import SamplingParams

PROMPT = (3, 1, 4, 1, 5)
SEED = 20260
_LENGTH = 4  # at the end of a request nothing is drafted: only the first two tokens are compared
_PLAIN = SamplingParams()
_TOLD = 5

Row = NDArray[np.float64]
Law = Callable[[Sequence[int]], Row]


class Stream:
    """A ``std::mt19937`` and the two distributions that the sampler asks of it.

    Args:
        seed: The request's seed, below 2**32.
    """

    def __init__(self, seed: int) -> None:
        self._words = np.random.RandomState(seed)

    def uniform(self) -> float:
        """``uniform_real_distribution(0, 1)``."""
        return self._word() / 2**32

    def hundredth(self) -> float:
        """``uniform_int_distribution(0, 100)`` by 100: one of 101 values."""
        return (self._word() * 101 >> 32) / 100

    def token(self, row: Row) -> int:
        """A token of a law."""
        place = np.searchsorted(np.cumsum(row), self.uniform(), side="right")
        return min(int(place), len(row) - 1)

    def _word(self) -> int:
        return int(self._words.randint(0, 2**32, dtype=np.uint32))


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What a reading of the rule says.

    Attributes:
        text: For people.
        own_stream: Whether the draft's generator differs from the target's.
        own_ratio: Whether a draft x is accepted by target(x) / draft(x).
        correction: Where it is drawn from: the row ``after`` the rejected draft, that draft's
            ``own`` row, or the ``residual`` of that row, as the standard rule has it.
    """

    text: str
    own_stream: bool = False
    own_ratio: bool = False
    correction: str = "after"


READINGS = {
    "as read": Reading(
        text="target and draft draw from generators with one seed; a draft x is accepted with "
        "probability draft(x) / target(y), y another sample of the target; the correction is "
        "drawn from the row after the rejected draft"
    ),
    "streams apart": Reading(text="the draft's generator has a seed of its own", own_stream=True),
    "ratio right": Reading(text="accepted by target(x) / draft(x)", own_ratio=True),
    "row right": Reading(text="the correction is drawn from the draft's own row", correction="own"),
}


def first_two(seed: int, target: Law, draft: Law, reading: Reading) -> tuple[int, int]:
    """The first two tokens of a request at one drafted token a pass, as a reading predicts them.

    Args:
        seed: The request's seed.
        target: The target's next law after new tokens, shape ``(vocab,)``.
        draft: The draft's.
        reading: The reading.
    """
    main = Stream(seed)
    drafts = Stream(_another(seed) if reading.own_stream else seed)
    first = main.token(target([]))
    target_row, draft_row = target([first]), draft([first])
    drafted = drafts.token(draft_row)
    sampled = main.token(target_row)
    if reading.own_ratio:
        ratio = target_row[drafted] / draft_row[drafted]
    else:
        ratio = draft_row[drafted] / target_row[sampled]
    if main.hundredth() <= ratio:
        return first, drafted
    if reading.correction == "after":
        return first, main.token(target([first, drafted]))
    standard = reading.correction == "residual"
    row = residual_distribution(target_row, draft_row) if standard else target_row
    return first, main.token(row)


def _another(seed: int) -> int:
    return int(np.random.SeedSequence(seed).generate_state(1)[0])


def next_laws(engine: Any) -> tuple[Law, Law]:
    """The target's and the draft's next laws after :data:`PROMPT` and up to two new tokens."""
    vocab = engine.describe().vocab_size
    texts = np.array([(*pair, 0) for pair in product(range(vocab), repeat=2)])
    return tuple(  # type: ignore[return-value]
        _looked_up(probs(PROMPT, texts, _PLAIN), vocab)
        for probs in (engine.reference().probs, engine.draft_probs)
    )


def _looked_up(rows: Row, vocab: int) -> Law:
    """Laws from a table of all texts of two tokens, shape ``(vocab**2, 3, vocab)``."""

    def law(new: Sequence[int]) -> Row:
        first, second = (*new, 0, 0)[:2]
        found: Row = rows[first * vocab + second, len(new)]
        return found

    return law


def study(n: int) -> dict[str, Any]:
    """Draw ``n`` requests with and without drafts, and compare them with law and readings."""
    from specverify.adapters.openvino_genai import OpenVinoGenAIEngine

    engines = {mode: OpenVinoGenAIEngine(mode=mode, gamma=1) for mode in ("draft", "plain")}
    drawn = {
        mode: engine.sample(PROMPT, n, _LENGTH, _PLAIN, SEED).tokens[:, :2]
        for mode, engine in engines.items()
    }
    target, draft = next_laws(engines["draft"])
    joint = np.stack([p * target([x]) for x, p in enumerate(target([]))])
    seeds = np.random.SeedSequence(SEED).generate_state(n, np.uint32)
    reproduced = dict.fromkeys(READINGS, 0)
    for seed, emitted in zip(seeds, drawn["draft"].tolist(), strict=True):
        for name, reading in READINGS.items():
            reproduced[name] += list(first_two(int(seed), target, draft, reading)) == emitted
    info = engines["draft"].describe()
    return {
        "version": info.version,
        "prompt": PROMPT,
        "requests": n,
        "readings": {name: reading.text for name, reading in READINGS.items()},
        "reproduced": {name: count / n for name, count in reproduced.items()},
        **{f"second token, {mode}": _second(joint, tokens) for mode, tokens in drawn.items()},
    }


def _second(joint: Row, tokens: NDArray[np.int64]) -> dict[str, Any]:
    """The second token's law and frequencies: their distance, and the likeliest tokens."""
    law = joint.sum(axis=0)
    seen = np.bincount(tokens[:, 1], minlength=len(law)) / len(tokens)
    likeliest = np.argsort(-law)[:_TOLD].tolist()
    return {
        "total_variation": round(float(np.abs(law - seen).sum() / 2), 4),
        "expected": {token: round(float(law[token]), 4) for token in likeliest},
        "observed": {token: round(float(seen[token]), 4) for token in likeliest},
    }


def main(arguments: list[str] | None = None) -> None:
    """Run the study and write what it found."""
    parser = argparse.ArgumentParser(description="OpenVINO GenAI's rule, as read and as run.")
    parser.add_argument("--n", type=int, default=4000, help="requests of each kind")
    parser.add_argument("--out", type=Path, default=Path("reports/engines/openvino_rule.json"))
    options = parser.parse_args(arguments)
    text = json.dumps(study(options.n), indent=1)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
