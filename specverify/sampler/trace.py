"""What a decode did, block by block, and the counts that acceptance is estimated from.

Glossary: a *drafted* token was proposed; it was *tested* if all drafts before it in its block were
accepted; it was *accepted* if it passed its test. Accepted over tested estimates the acceptance
rate; accepted over drafted does not, since it counts tokens that were never looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import overload

__all__ = ["BlockTrace", "DecodeTrace"]


@dataclass(frozen=True, slots=True)
class BlockTrace:
    """One target pass.

    Attributes:
        proposed: Drafted ids.
        n_accepted: How many of them, from the first on, were accepted.
        emitted: The accepted ids and the correction or bonus: ``n_accepted + 1`` ids, before the
            cut at the end of the text or at the length asked for.
        kept: How many of ``emitted`` the completion took.
        acceptance_rates: Overlap ``sum min(target, draft)`` at each drafted position, where it was
            asked for.
    """

    proposed: tuple[int, ...]
    n_accepted: int
    emitted: tuple[int, ...]
    kept: int
    acceptance_rates: tuple[float, ...] = ()

    @property
    def n_tested(self) -> int:
        """Drafts that were tested: the accepted ones and the first rejected one."""
        return min(self.n_accepted + 1, len(self.proposed))


@dataclass(frozen=True, slots=True)
class DecodeTrace(Sequence[BlockTrace]):
    """The blocks of one decode, in order; behaves as a sequence of them.

    Attributes:
        blocks: One entry a target pass.
    """

    blocks: tuple[BlockTrace, ...]

    @property
    def passes(self) -> int:
        """Target passes."""
        return len(self.blocks)

    @property
    def drafted(self) -> int:
        """Drafted tokens."""
        return sum(len(block.proposed) for block in self.blocks)

    @property
    def tested(self) -> int:
        """Drafted tokens that were tested."""
        return sum(block.n_tested for block in self.blocks)

    @property
    def accepted(self) -> int:
        """Drafted tokens that were accepted."""
        return sum(block.n_accepted for block in self.blocks)

    @property
    def emitted(self) -> int:
        """Tokens emitted by all blocks, those that the completion's end cut off included."""
        return sum(len(block.emitted) for block in self.blocks)

    @property
    def kept(self) -> int:
        """Tokens of the completion."""
        return sum(block.kept for block in self.blocks)

    @property
    def acceptance(self) -> float | None:
        """Accepted over tested: estimates the acceptance rate. None if nothing was tested."""
        return self.accepted / self.tested if self.tested else None

    @property
    def tokens_per_pass(self) -> float | None:
        """Emitted tokens a pass, without the completion's cut. None if there was no pass."""
        return self.emitted / self.passes if self.passes else None

    @overload
    def __getitem__(self, index: int) -> BlockTrace: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[BlockTrace, ...]: ...
    def __getitem__(self, index: int | slice) -> BlockTrace | tuple[BlockTrace, ...]:
        return self.blocks[index]

    def __len__(self) -> int:
        return len(self.blocks)

    def __iter__(self) -> Iterator[BlockTrace]:
        return iter(self.blocks)
