"""Drawn blocks of logits or laws, to time verification on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from specverify.bench.timing import Job
from specverify.sampler.batched import BlockBatch, verify_blocks
from specverify.sampler.from_logits import verify_blocks_from_logits

__all__ = ["GAMMA", "Cell", "DrawnBlocks", "copy_of_last_rows", "verify_laws", "verify_logits"]

GAMMA = 4
_LARGEST = 2**31
"""Bytes of the two arrays together."""


@dataclass(frozen=True)
class Cell:
    """Sizes of a batch of blocks.

    Attributes:
        vocab: Size of the vocabulary.
        batch: Blocks.
        gamma: Drafts of each.
        double: Whether in float64, else in float32.
    """

    vocab: int
    batch: int
    gamma: int = GAMMA
    double: bool = False

    @property
    def dtype(self) -> torch.dtype:
        """Of the rows."""
        return torch.float64 if self.double else torch.float32

    @property
    def too_large(self) -> bool:
        """Whether the rows would take more than two gigabytes."""
        return self.bytes > _LARGEST

    @property
    def bytes(self) -> int:
        """What the rows take."""
        return self.batch * (2 * self.gamma + 1) * self.vocab * self.dtype.itemsize

    def cut(self, batch: int) -> Cell:
        """The same with at most so many blocks."""
        return replace(self, batch=min(self.batch, batch))

    def __str__(self) -> str:
        kind = ", float64" if self.double else ""
        return f"V = {self.vocab}, gamma {self.gamma}, batch {self.batch}{kind}"


@dataclass(frozen=True)
class DrawnBlocks:
    """Rows of a batch, with drafts drawn from the draft's.

    Target scores are normal with standard deviation 2; the draft's are off by one half.

    Attributes:
        target: Scores or probabilities, shape ``(batch, gamma + 1, vocab)``.
        draft: The same of the draft, shape ``(batch, gamma, vocab)``.
        tokens: Drafted ids, shape ``(batch, gamma)``.
        generator: The generator to go on with.
    """

    target: Tensor
    draft: Tensor
    tokens: Tensor
    generator: torch.Generator

    @classmethod
    def logits(cls, cell: Cell) -> DrawnBlocks:
        """Scores."""
        generator = torch.Generator().manual_seed(cell.vocab)
        shape, options = (cell.batch, cell.gamma, cell.vocab), {"dtype": cell.dtype}
        drawn: dict[str, Any] = options | {"generator": generator}
        target = torch.randn(cell.batch, cell.gamma + 1, cell.vocab, **drawn).mul_(2)
        draft = torch.randn(shape, **drawn).div_(2).add_(target[:, : cell.gamma])
        # One block at a time: all laws together would be as large as the scores.
        tokens = [torch.multinomial(rows.softmax(-1), 1, generator=generator) for rows in draft]
        return cls(target, draft, torch.cat(tokens).view(shape[:2]), generator)

    @classmethod
    def laws(cls, cell: Cell) -> DrawnBlocks:
        """The softmax of these scores, in their memory."""
        blocks = cls.logits(cell)
        for rows in (blocks.target, blocks.draft):
            torch.softmax(rows, -1, out=rows)
        return blocks

    def first(self, n: int) -> DrawnBlocks:
        """The first few blocks."""
        return DrawnBlocks(self.target[:n], self.draft[:n], self.tokens[:n], self.generator)


def verify_laws(blocks: DrawnBlocks) -> BlockBatch:
    """Ours, from probabilities."""
    rows = blocks.target, blocks.draft, blocks.tokens
    return verify_blocks(*rows, blocks.generator, validate=False)


def verify_logits(blocks: DrawnBlocks) -> BlockBatch:
    """Ours, from scores."""
    rows = blocks.target, blocks.draft, blocks.tokens
    return verify_blocks_from_logits(*rows, blocks.generator, validate=False)


def copy_of_last_rows(laws: DrawnBlocks) -> Job:
    """Copies the two rows that the rule must read, into memory that is there already."""
    n = verify_laws(laws).n_accepted
    blocks, gamma = torch.arange(len(n)), laws.tokens.shape[1]
    places = blocks * (gamma + 1) + n, blocks * gamma + n.clamp(max=gamma - 1)
    both = [rows.flatten(0, 1) for rows in (laws.target, laws.draft)]
    room = [rows.new_empty(len(n), rows.shape[-1]) for rows in both]

    def job() -> None:
        for rows, place, out in zip(both, places, room, strict=True):
            torch.index_select(rows, 0, place, out=out)

    return job
