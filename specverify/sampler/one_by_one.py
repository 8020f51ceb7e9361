"""Blocks one after another on the host, in numpy: for a few blocks, or for long rows of logits.

Each call of a tensor library costs microseconds, which a batch shares and a single block does not;
and a row of logits that no test reaches need not be normalised.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from specverify._arrays import FloatArray, IntArray, is_torch, to_numpy
from specverify.sampler.long_rows import excess, pick_from_row
from specverify.sampler.verify import SMALLEST_DIVISOR

__all__ = ["Block", "Laws", "is_on_host", "like", "verify_in_turn"]


def is_on_host(*arrays: Any) -> bool:
    """Whether all are numpy arrays or CPU tensors, of at least four bytes a number."""
    return all(
        array.dtype.itemsize >= 4
        and (type(array) is np.ndarray or (_is_tensor(array) and array.device.type == "cpu"))
        for array in arrays
    )


def _is_tensor(array: Any) -> bool:
    """Whether this is a tensor of torch's own class: others may hold no numbers."""
    return is_torch(array) and type(array).__name__ == "Tensor"


class Block(Protocol):
    """The rows of one block."""

    def ratio(self, place: int, token: int) -> float:
        """Target over draft probability of the token drafted at a place."""

    def correction(self, place: int) -> FloatArray:
        """Weights of the token after a rejection at the place whose ratio was asked for last."""

    def bonus(self, place: int) -> FloatArray:
        """Weights of the token after the last draft, in the target's row ``place``."""


class Laws(NamedTuple):
    """A block given by probabilities, shapes ``(gamma + 1, vocab)`` and ``(gamma, vocab)``."""

    target: FloatArray
    draft: FloatArray

    @classmethod
    def of(cls, target_probs: Any, draft_probs: Any) -> Iterable[Laws]:
        """Every block of a batch, numpy arrays or tensors on the host."""
        return map(cls, to_numpy(target_probs), to_numpy(draft_probs))

    def ratio(self, place: int, token: int) -> float:
        """As ``Block`` says."""
        divisor = max(self.draft.item(place, token), SMALLEST_DIVISOR)
        return float(self.target.item(place, token) / divisor)

    def correction(self, place: int) -> FloatArray:
        """As ``Block`` says."""
        weights = excess(self.target[place], self.draft[place])
        # A rejection without any excess has probability zero, up to rounding.
        return weights if weights.any() else self.target[place]

    def bonus(self, place: int) -> FloatArray:
        """As ``Block`` says."""
        row: FloatArray = self.target[place]
        return row


def verify_in_turn(
    blocks: Iterable[Block], draft_tokens: Any, uniforms: Any, lengths: Any
) -> tuple[Any, Any]:
    """Verify blocks one after another.

    Args:
        blocks: Their rows.
        draft_tokens: Drafted ids, shape ``(batch, gamma)``.
        uniforms: Numbers in [0, 1), shape ``(batch, gamma + 1)``: one for each test, and last the
            one for the token after the accepted drafts.
        lengths: Drafts of each block, shape ``(batch,)``, or None where there are ``gamma``.

    Returns:
        Emitted ids padded with -1, int64, shape ``(batch, gamma + 1)``, and the numbers of accepted
        drafts, int64, shape ``(batch,)``; of the drafts' library.
    """
    batch, gamma = draft_tokens.shape
    counts = np.zeros(batch, dtype=np.int64)
    emitted = np.full((batch, gamma + 1), -1, dtype=np.int64)
    drafts = draft_tokens.tolist()
    if lengths is not None:
        drafts = [row[: max(n, 0)] for row, n in zip(drafts, lengths.tolist(), strict=True)]
    given = zip(blocks, drafts, uniforms.tolist(), strict=True)
    for index, (block, tokens, numbers) in enumerate(given):
        n_accepted, last = _verify_one(block, tokens, numbers)
        emitted[index, : n_accepted + 1] = [*tokens[:n_accepted], last]
        counts[index] = n_accepted
    return like(draft_tokens, emitted), like(draft_tokens, counts)


def _verify_one(block: Block, tokens: Sequence[int], uniforms: Sequence[float]) -> tuple[int, int]:
    for place, token in enumerate(tokens):
        # Strict, so that a token which the target excludes is refused even by a uniform of 0.
        if not uniforms[place] < block.ratio(place, token):
            return place, pick_from_row(block.correction(place), uniforms[-1])
    return len(tokens), pick_from_row(block.bonus(len(tokens)), uniforms[-1])


def like(array: Any, values: IntArray) -> Any:
    """Values as an array of the library of ``array``."""
    if not is_torch(array):
        return values
    import torch

    return torch.from_numpy(values)
