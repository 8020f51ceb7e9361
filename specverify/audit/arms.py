"""Two samples where no law is known: an engine's completions and those of its plain decoding."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from specverify.audit.tally import Tally

__all__ = ["ARMS", "CELLS", "arms_log_e", "count_arms"]

ARMS = 2
"""Speculative completions come first, plain ones second."""

CELLS = 64
"""Cells of a token: its id modulo 64, and one more for the end."""

_KEY = "arms"
_SLOTS = 1 << 14
_PRIME = 1_000_003
_SHRINKAGE = 20.0
"""Observations that a feature's score is pulled to zero by: rare ones say little."""
_BOLDNESS = np.array([1.0, 0.3])

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


def count_arms(tally: Tally, seed: int, prompt: tuple[int, int], arms: tuple[Ints, Ints]) -> None:
    """Keep a batch of both arms, and count tokens by prompt and position.

    Args:
        tally: Where to.
        seed: Seed of the batch, which names it.
        prompt: Number of the prompt, and of prompts.
        arms: Speculative and plain completions, each of shape ``(n, length)``, padded with -1.
    """
    which, prompts = prompt
    length = arms[0].shape[1]
    table = tally.table("arms", (ARMS, prompts, length, CELLS + 1))
    for arm, tokens in enumerate(arms):
        # An end is an outcome; what follows it is not.
        seen = np.cumsum(tokens < 0, axis=1) <= 1
        cells = np.where(tokens < 0, CELLS, tokens % CELLS)
        for position in range(length):
            drawn = cells[seen[:, position], position]
            table[arm, which, position] += np.bincount(drawn, minlength=CELLS + 1)
    batch = {"prompt": which, "arms": [tokens.tolist() for tokens in arms]}
    tally.note(f"{_KEY}:{seed}", batch)


def arms_log_e(tally: Tally) -> float:
    """Sequential evidence that speculative and plain completions have different laws.

    If the laws agree, a pair of completions, one of each arm after the same prompt, is as likely as
    its swap. The bet is on which way round it is, by the tokens and the pairs of neighbouring
    tokens that earlier batches have shown more often in one arm than in the other; any score made
    of earlier batches is a fair one.

    Args:
        tally: The batches, in the order in which they were drawn.

    Returns:
        Logarithm of the e-value, valid at any stopping time.

    References:
        Lhéritier and Cazals (2018), arXiv:1602.05307; Podkopaev and Ramdas (2023),
        arXiv:2305.00143, section 2.
    """
    kinds = 3
    counts = np.zeros((ARMS, kinds, _SLOTS))
    gains = np.zeros((kinds, len(_BOLDNESS)))
    for first, second in _batches(tally):
        shrunk = counts.sum(axis=0) + _SHRINKAGE
        scores = 2 * (counts[0] - counts[1]) / shrunk
        features = [_features(arm) for arm in (first, second)]
        for kind in range(kinds):
            sums = [np.append(scores[kind], 0.0)[f[kind]].sum(axis=1) for f in features]
            margins = np.multiply.outer(sums[0] - sums[1], _BOLDNESS)
            # 2 sigmoid(margin); the swapped pair pays 2 sigmoid(-margin), and they average to one.
            gains[kind] += np.sum(np.log(2) - np.logaddexp(0.0, -margins), axis=0)
            for arm, feature in enumerate(features):
                seen = feature[kind][feature[kind] < _SLOTS]
                counts[arm, kind] += np.bincount(seen, minlength=_SLOTS)
    return float(np.logaddexp.reduce(gains, axis=None) - np.log(gains.size))


def _batches(tally: Tally) -> Iterator[tuple[Ints, Ints]]:
    for name, case in tally.cases.items():
        if name.startswith(f"{_KEY}:"):
            first, second = (np.array(arm, dtype=np.int64) for arm in case["arms"])
            yield first, second


def _features(tokens: Ints) -> list[Ints]:
    """Slots of each token alone, with its position, and with the one before; ``_SLOTS`` for none.

    Returns:
        One array for each kind, shape ``(n, length)``.
    """
    before = np.concatenate([np.full((len(tokens), 1), -2), tokens[:, :-1]], axis=1)
    kinds = [
        tokens * _PRIME,
        tokens * _PRIME + np.arange(tokens.shape[1]) * 7919,
        tokens * _PRIME + (before + 2) * 104_729,
    ]
    over = np.cumsum(tokens < 0, axis=1) > 1
    return [np.where(over, _SLOTS, kind % 1_000_000_007 % _SLOTS) for kind in kinds]
