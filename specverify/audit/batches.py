"""A batched verifier seen as a block verifier: its block among strangers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from specverify._arrays import namespace, to_numpy
from specverify.audit.calls import invoke, split_result
from specverify.audit.forms import Form
from specverify.audit.signatures import takes
from specverify.audit.targets import Target
from specverify.errors import InputMutatedError, InvalidEmissionError

__all__ = ["RowOfBatch", "as_block_verifier", "as_traced_verifier"]

_ROWS, _TRACED_ROWS = 3, 2
_LENGTHS = "draft_lengths"


class RowOfBatch:
    """Verifies one block in a batch of three (or another number) and returns its row.

    The other rows hold the same block under another numbering of the vocabulary, so that whatever
    leaks from row to row (a draft, a law) lands on tokens of another law. Their drafts are scored
    with a law nearer to the target's, so that they are accepted more often: an offset or a count
    that leaks is seen as well. Where the verifier takes ``draft_lengths``, they have fewer drafts,
    and in the last row the block itself is shorter than the batch is wide.
    Which row is the block's own follows from its drafts, never from a counter: shards stay
    independent.

    Args:
        target: A batched verifier.
        rows: Blocks in a batch.
        reads: Whether to look at what comes back; without, the row is returned as it is, so that
            a tracer sees which of its values anybody looks at.
        place: Row of the block itself; by its drafts when None.

    Attributes:
        form: How the verifier behind it is called.
    """

    form = Form.BATCHED

    def __init__(
        self, target: Target, *, rows: int = _ROWS, reads: bool = True, place: int | None = None
    ) -> None:
        self._target, self._rows, self._reads = target, rows, reads
        self._place = place
        self._ragged = takes(target.implementation, _LENGTHS)

    def __call__(
        self, target_probs: Any, draft_probs: Any, draft_tokens: Any, generator: Any = None
    ) -> tuple[Any, Any]:
        """Verify one block; arguments and results are those of a block verifier."""
        xp = namespace(target_probs)
        vocab = target_probs.shape[-1]
        own = int(draft_tokens.sum()) % self._rows if self._place is None else self._place
        turns = [(row - own) % self._rows for row in range(self._rows)]
        nearer = (target_probs[:-1] + draft_probs) / 2
        scored = [nearer if turn else draft_probs for turn in turns]
        batch = (
            xp.stack([xp.roll(target_probs, turn, axis=-1) for turn in turns]),
            xp.stack([xp.roll(scored[row], turn, axis=-1) for row, turn in enumerate(turns)]),
            xp.stack([(draft_tokens + turn) % vocab for turn in turns]),
        )
        gamma = width = int(draft_tokens.shape[0])
        if self._ragged and own == self._rows - 1:
            # What stands beyond a row's own drafts is no part of it: its law must stay the same.
            batch, width = tuple(_longer(array, xp) for array in batch), gamma + 1
        before = [np.array(to_numpy(array)) for array in batch]
        lengths = [max(1, gamma - turn) for turn in turns]
        more = {_LENGTHS: xp.asarray(lengths)} if self._ragged else {}
        emitted, counts = split_result(invoke(self._target, batch, generator, **more))
        for name, array, original in zip(
            ("target_probs", "draft_probs", "draft_tokens"), batch, before, strict=True
        ):
            if not _same(to_numpy(array), original):
                raise InputMutatedError(f"wrote into its argument {name}")
        if not self._reads:
            return emitted[own][: gamma + 1], None if counts is None else counts[own]
        drafts = lengths if self._ragged else [gamma] * self._rows
        return _read_rows(emitted, drafts, width)[own], _read_count(counts, own, self._rows)


def _longer(array: Any, xp: Any) -> Any:
    """One position more for every row of a batch: its first one once again."""
    return xp.concatenate([array, array[:, :1]], axis=1)


def _same(array: Any, original: Any) -> bool:
    """Whether nothing changed; to look for NaN first costs a long row more than to compare it."""
    return np.array_equal(array, original) or np.array_equal(array, original, equal_nan=True)


def as_block_verifier(target: Target, *, traced: bool = False) -> Target:
    """The target, called one block at a time, each among two others.

    Args:
        target: A batched verifier.
        traced: Whether beside one stranger alone, as a tracer runs it and what it finds is
            confirmed: every row multiplies the paths.
    """
    batch = RowOfBatch(target, rows=_TRACED_ROWS if traced else _ROWS)
    return replace(target, form=Form.VERIFY, implementation=batch, generator="generator")


def as_traced_verifier(target: Target, *, place: int | None = None) -> Target:
    """The target for a tracer: what it returns is not looked at here.

    Args:
        target: A batched verifier.
        place: Row of the block itself among the two; by its drafts when None.
    """
    batch = RowOfBatch(target, rows=_TRACED_ROWS, reads=False, place=place)
    return replace(target, form=Form.VERIFY, implementation=batch, generator="generator")


def _read_rows(emitted: Any, lengths: list[int], gamma: int) -> list[list[int]]:
    """Ids of every row without their padding; the strangers' own values are not judged."""
    shape = (len(lengths), gamma + 1)
    try:
        rows = to_numpy(emitted)
    except (TypeError, ValueError) as error:
        raise InvalidEmissionError(
            f"emitted {type(emitted).__name__} that is no array; integer ids of shape {shape}, "
            "padded with -1, are expected"
        ) from error
    if rows.shape != shape or rows.dtype.kind not in "iu":
        raise InvalidEmissionError(
            f"emitted has shape {rows.shape} and dtype {rows.dtype}; integer ids of shape "
            f"{shape}, padded with -1, are expected"
        )
    found = []
    for row, drafts in zip(rows.tolist(), lengths, strict=True):
        size = sum(token != -1 for token in row)
        if -1 in row[:size]:
            raise InvalidEmissionError(f"emitted {row}: padding before the end")
        if not 1 <= size <= drafts + 1:
            raise InvalidEmissionError(f"emitted {size} tokens {row} for a row of {drafts} drafts")
        found.append(row[:size])
    return found


def _read_count(counts: Any, own: int, rows: int) -> int | None:
    if counts is None:
        return None
    values = to_numpy(counts)
    if values.shape != (rows,):
        raise InvalidEmissionError(f"n_accepted has shape {values.shape}, needs {(rows,)}")
    return int(values[own])
