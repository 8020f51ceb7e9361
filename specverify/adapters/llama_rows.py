"""Completions of llama.cpp's server side by side, as rows of ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from specverify.adapters.completions_api import spaced_seeds
from specverify.adapters.llama_process import MODES, Answer, LlamaProcess
from specverify.audit.forms import Completions
from specverify.errors import InvalidEmissionError, InvalidInputError

__all__ = ["check_drafting", "in_rows", "side_by_side"]

_MOST_SLOTS = 64


def side_by_side(
    process: LlamaProcess, request: Mapping[str, Any], n: int, seed: int
) -> list[Answer]:
    """Draw completions of one request, as many at once as the server has slots.

    Args:
        process: The server.
        request: Fields of the request but for its seed.
        n: Number of completions.
        seed: Source of the requests' seeds; each completion has its own.
    """
    slots = process.launch.slots
    starts = range(0, n, slots)
    answers: list[Answer] = []
    for start, first in zip(starts, spaced_seeds(seed, len(starts), slots), strict=True):
        answers += process.complete({**request, "seed": first}, min(slots, n - start))
    return answers


def check_drafting(gamma: int, mode: str, slots: int) -> None:
    """Refuse settings that llama.cpp cannot be started with.

    Raises:
        InvalidInputError: If one is out of its range.
    """
    if gamma < 1:
        raise InvalidInputError("gamma", f"must be at least 1, got {gamma}")
    if mode not in MODES:
        raise InvalidInputError("mode", f"must be one of {', '.join(MODES)}; got {mode!r}")
    if not 1 <= slots <= _MOST_SLOTS:
        raise InvalidInputError("slots", f"must lie in [1, {_MOST_SLOTS}], got {slots}")


def in_rows(answers: Sequence[Answer], length: int, *, counted: bool) -> Completions:
    """Completions of equal length, padded with -1.

    Args:
        answers: What the server said.
        length: Tokens that were asked for.
        counted: Whether drafts are to be expected, so that their counts mean something.

    Raises:
        InvalidEmissionError: If a completion is short though nothing ended it.
    """
    tokens = np.full((len(answers), length), -1, np.int64)
    for row, answer in enumerate(answers):
        if len(answer.tokens) < length and not answer.ended:
            raise InvalidEmissionError(
                f"asked for {length} tokens, got {len(answer.tokens)} and no end of the text"
            )
        tokens[row, : len(answer.tokens)] = answer.tokens[:length]
    if not counted:
        return Completions(tokens=tokens)
    accepted = np.array([answer.accepted for answer in answers], dtype=np.int64)
    drafted = np.array([answer.drafted for answer in answers], dtype=np.int64)
    passes = (tokens >= 0).sum(axis=1) - accepted
    return Completions(tokens=tokens, accepted=accepted, drafted=drafted, passes=passes)
