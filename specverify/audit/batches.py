"""A batched verifier seen as a block verifier: its block among strangers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from specverify._arrays import namespace, to_numpy
from specverify.audit.calls import invoke, split_result
from specverify.audit.forms import Form
from specverify.audit.targets import Target
from specverify.errors import InputMutatedError, InvalidEmissionError

__all__ = ["RowOfBatch", "as_block_verifier"]

_ROWS = 3


class RowOfBatch:
    """Verifies one block in a batch of three and returns its row.

    The other rows hold the same block under another numbering of the vocabulary, so that whatever
    leaks from row to row (an offset, a draft, a count) lands on tokens of another law. Which row is
    the block's own follows from its drafts, never from a counter: shards stay independent.

    Args:
        target: A batched verifier.
    """

    def __init__(self, target: Target) -> None:
        self._target = target

    def __call__(
        self, target_probs: Any, draft_probs: Any, draft_tokens: Any, generator: Any = None
    ) -> tuple[list[int], int | None]:
        """Verify one block; arguments and results are those of a block verifier."""
        xp = namespace(target_probs)
        vocab = target_probs.shape[-1]
        own = int(draft_tokens.sum()) % _ROWS
        turns = [(row - own) % _ROWS for row in range(_ROWS)]
        batch = (
            xp.stack([xp.roll(target_probs, turn, axis=-1) for turn in turns]),
            xp.stack([xp.roll(draft_probs, turn, axis=-1) for turn in turns]),
            xp.stack([(draft_tokens + turn) % vocab for turn in turns]),
        )
        before = [np.array(to_numpy(array)) for array in batch]
        emitted, counts = split_result(invoke(self._target, batch, generator))
        for name, array, original in zip(
            ("target_probs", "draft_probs", "draft_tokens"), batch, before, strict=True
        ):
            if not np.array_equal(to_numpy(array), original, equal_nan=True):
                raise InputMutatedError(f"wrote into its argument {name}")
        return _read_row(emitted, own, draft_tokens.shape[0]), _read_count(counts, own)


def as_block_verifier(target: Target) -> Target:
    """The target, called one block at a time, each among two others."""
    return replace(
        target, form=Form.VERIFY, implementation=RowOfBatch(target), generator="generator"
    )


def _read_row(emitted: Any, own: int, gamma: int) -> list[int]:
    rows = to_numpy(emitted)
    if rows.shape != (_ROWS, gamma + 1) or rows.dtype.kind not in "iu":
        raise InvalidEmissionError(
            f"emitted has shape {rows.shape} and dtype {rows.dtype}; integer ids of shape "
            f"{(_ROWS, gamma + 1)}, padded with -1, are expected"
        )
    row = rows[own]
    length = int(np.sum(row != -1))
    if (row[:length] == -1).any():
        raise InvalidEmissionError(f"emitted {row.tolist()}: padding before the end")
    return [int(token) for token in row[:length]]


def _read_count(counts: Any, own: int) -> int | None:
    if counts is None:
        return None
    values = to_numpy(counts)
    if values.shape != (_ROWS,):
        raise InvalidEmissionError(f"n_accepted has shape {values.shape}, needs {(_ROWS,)}")
    return int(values[own])
