"""What one block is verified on: how target and draft rows follow from the tokens before them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from specverify._arrays import FloatArray, to_numpy
from specverify.distributions import check_distribution
from specverify.errors import InvalidInputError

__all__ = ["BlockScenario", "NextProbs", "NextTokenModel"]

NextProbs: TypeAlias = Callable[[tuple[int, ...]], FloatArray]
"""Maps the tokens since the start of the block to the next token's law, float64, ``(vocab,)``."""


class NextTokenModel(Protocol):
    """A model whose next-token law is known for every context, e.g. ``TabularModel``."""

    @property
    def vocab_size(self) -> int:
        """Number of tokens."""

    @property
    def order(self) -> int:
        """Number of tokens of context that matter."""

    def next_probs(self, context: Any) -> FloatArray:
        """Law of the token after ``context``, float64, shape ``(vocab,)``."""


@dataclass(frozen=True, slots=True)
class BlockScenario:
    """Laws of one block.

    Attributes:
        gamma: Number of drafts, at least 1.
        vocab_size: Size of the vocabulary.
        target: The target's law after the tokens emitted since the start of the block.
        draft: The draft's law after them.
    """

    gamma: int
    vocab_size: int
    target: NextProbs
    draft: NextProbs
    _blocks: dict[tuple[int, ...], tuple[NDArray[Any], NDArray[Any]]] = field(
        default_factory=dict, repr=False, compare=False
    )

    @classmethod
    def from_rows(cls, target_probs: Any, draft_probs: Any) -> BlockScenario:
        """Rows that depend on the position alone.

        Args:
            target_probs: Target rows, shape ``(gamma + 1, vocab)``, numpy or torch.
            draft_probs: Draft rows, shape ``(gamma, vocab)``.

        Raises:
            InvalidInputError: If the shapes do not fit or a row is not a distribution.
        """
        target, draft = (to_numpy(rows).astype(np.float64) for rows in (target_probs, draft_probs))
        if draft.ndim != 2 or not len(draft):
            raise InvalidInputError("draft_probs", f"needs (gamma, vocab), got {draft.shape}")
        if target.shape != (len(draft) + 1, draft.shape[1]):
            raise InvalidInputError(
                "target_probs", f"shape {target.shape} does not fit draft_probs' {draft.shape}"
            )
        # Float32 rows sum to one within their rounding only.
        check_distribution("target_probs", target, tolerance=1e-4)
        check_distribution("draft_probs", draft, tolerance=1e-4)
        return cls(
            gamma=len(draft),
            vocab_size=int(draft.shape[1]),
            target=lambda prefix: target[len(prefix)],
            draft=lambda prefix: draft[len(prefix)],
        )

    @classmethod
    def from_models(
        cls, target: NextTokenModel, draft: NextTokenModel, *, prompt: Sequence[int], gamma: int
    ) -> BlockScenario:
        """A block after ``prompt``, whose rows follow from two models.

        Raises:
            InvalidInputError: If the vocabularies differ or ``gamma`` is not positive.
        """
        if target.vocab_size != draft.vocab_size:
            raise InvalidInputError(
                "draft", f"vocabulary of {draft.vocab_size}, the target's has {target.vocab_size}"
            )
        if gamma < 1:
            raise InvalidInputError("gamma", f"must be at least 1, got {gamma}")
        before = tuple(int(token) for token in prompt)
        return cls(
            gamma=gamma,
            vocab_size=target.vocab_size,
            target=lambda prefix: target.next_probs(before + prefix),
            draft=lambda prefix: draft.next_probs(before + prefix),
        )

    def block(self, drafts: tuple[int, ...]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Target rows ``(gamma + 1, vocab)`` and draft rows ``(gamma, vocab)`` along drafts."""
        known = self._blocks.get(drafts)
        if known is None:
            prefixes = [drafts[:length] for length in range(self.gamma + 1)]
            target = np.stack([np.asarray(self.target(prefix)) for prefix in prefixes])
            draft = np.stack([np.asarray(self.draft(prefix)) for prefix in prefixes[:-1]])
            known = self._blocks[drafts] = (target, draft)
        return known
