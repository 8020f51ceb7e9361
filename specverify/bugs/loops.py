"""A decode loop cut into stages: caches, positions, drafting and stopping can be replaced."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from specverify._arrays import FloatArray, IntArray
from specverify.bugs.draws import Draws, SampledDraws
from specverify.bugs.staged import STANDARD, Rows, StagedVerifier
from specverify.sampler.trace import BlockTrace, DecodeTrace

__all__ = [
    "Blocks",
    "NextProbs",
    "Proposal",
    "Request",
    "StagedDecoder",
    "draft_tokens",
    "standard_cut",
    "text",
]

Tokens: TypeAlias = tuple[int, ...]
NextProbs: TypeAlias = Callable[[Tokens], FloatArray]
Blocks: TypeAlias = Sequence[BlockTrace]
Proposal: TypeAlias = tuple[list[int], FloatArray]


@dataclass(frozen=True, kw_only=True)
class Request:
    """What a decoder is asked for.

    Attributes:
        prompt: Ids before the completion.
        target_next: Maps a context to the target's next-token law, shape ``(vocab,)``.
        draft_next: The same for the draft.
        gamma: Drafted tokens in a pass.
        max_new_tokens: Length of the completion unless it ends by itself.
        eos_token_id: The token that ends it, and belongs to it.
    """

    prompt: Tokens
    target_next: NextProbs
    draft_next: NextProbs
    gamma: int
    max_new_tokens: int
    eos_token_id: int | None = None


def text(blocks: Blocks) -> Tokens:
    """Everything that the blocks emitted, in order."""
    return tuple(token for block in blocks for token in block.emitted)


def _whole_context(prompt: Tokens, blocks: Blocks) -> Tokens:
    return prompt + text(blocks)


def _same_law(law: FloatArray) -> FloatArray:
    return law


def _same_row(row: FloatArray, _new_tokens: Tokens) -> FloatArray:
    return row


def draft_tokens(
    decoder: StagedDecoder, request: Request, blocks: Blocks, draws: Draws
) -> Proposal:
    """Draw ``gamma`` tokens one after the other from the draft's law as ``decoder`` bends it."""
    context = decoder.draft_context(request.prompt, blocks)
    proposed: list[int] = []
    rows: list[FloatArray] = []
    for _ in range(decoder.width(request, blocks)):
        rows.append(request.draft_next((*context, *proposed)))
        proposed.append(draws.token(decoder.proposal(rows[-1])))
    return proposed, np.array(rows)


def _as_asked(request: Request) -> Request:
    return request


def _full_width(request: Request, _blocks: Blocks) -> int:
    return request.gamma


def standard_cut(request: Request, blocks: Blocks) -> tuple[Tokens, bool]:
    """The completion so far and whether it is over: at its first EOS, or at its full length."""
    tokens = text(blocks)[: request.max_new_tokens]
    if request.eos_token_id in tokens:
        return tokens[: tokens.index(request.eos_token_id) + 1], True
    return tokens, len(tokens) == request.max_new_tokens


@dataclass(frozen=True, kw_only=True)
class StagedDecoder:
    """A speculative decode loop; the default is right.

    Attributes:
        verifier: Rule of each block.
        draft: Drafts a block: ids, and the rows that the verifier is told they came from.
        proposal: The law that a draft token is really drawn from, from the draft's row.
        width: Tokens to draft in the next block.
        draft_context: What the draft's cache holds before a block, from the prompt and the blocks.
        target_context: What the target's cache holds.
        target_row: The target's law as verified, from its row and the new tokens before it.
        cut: The completion so far, and whether it is over.
        prepare: The request as the loop understands it.
        memory: All that the next block depends on; enumeration merges paths that agree in it.
    """

    verifier: StagedVerifier = STANDARD
    draft: Callable[[StagedDecoder, Request, Blocks, Draws], Proposal] = draft_tokens
    proposal: Callable[[FloatArray], FloatArray] = _same_law
    width: Callable[[Request, Blocks], int] = _full_width
    draft_context: Callable[[Tokens, Blocks], Tokens] = _whole_context
    target_context: Callable[[Tokens, Blocks], Tokens] = _whole_context
    target_row: Callable[[FloatArray, Tokens], FloatArray] = _same_row
    cut: Callable[[Request, Blocks], tuple[Tokens, bool]] = standard_cut
    prepare: Callable[[Request], Request] = _as_asked
    memory: Callable[[Blocks], Hashable] = text

    def __call__(
        self,
        prompt: Sequence[int],
        target_step: Callable[[IntArray], FloatArray],
        draft_step: Callable[[IntArray], FloatArray],
        gamma: int,
        max_new_tokens: int,
        generator: np.random.Generator,
        *,
        eos_token_id: int | None = None,
    ) -> tuple[IntArray, DecodeTrace]:
        """Decode one completion.

        Args:
            prompt: Ids, shape ``(t,)``, at least one.
            target_step: Maps ids ``(t,)`` to the target's next-token law ``(vocab,)``, numpy.
            draft_step: The same for the draft.
            gamma: Tokens drafted in a pass.
            max_new_tokens: Tokens to return.
            generator: Source of randomness.
            eos_token_id: Token that ends the completion.

        Returns:
            The new ids and the trace.
        """
        request = Request(
            prompt=tuple(int(token) for token in prompt),
            target_next=lambda context: target_step(np.array(context)),
            draft_next=lambda context: draft_step(np.array(context)),
            gamma=gamma,
            max_new_tokens=max_new_tokens,
            eos_token_id=eos_token_id,
        )
        tokens, trace = self.run(request, SampledDraws(generator))
        return np.array(tokens, dtype=np.int64), trace

    def run(self, request: Request, draws: Draws) -> tuple[Tokens, DecodeTrace]:
        """Decode with the given draws: sampled or enumerated."""
        asked = self.prepare(request)
        blocks: list[BlockTrace] = []
        kept: Tokens = ()
        over = False
        while not over:
            before = len(kept)
            blocks.append(self.block(asked, blocks, draws))
            kept, over = self.cut(asked, blocks)
            blocks[-1] = replace(blocks[-1], kept=len(kept) - before)
        return kept, DecodeTrace(tuple(blocks))

    def block(self, request: Request, blocks: Blocks, draws: Draws) -> BlockTrace:
        """One pass after ``blocks``; how much of it is kept is not yet known."""
        proposed, draft_rows = self.draft(self, request, blocks, draws)
        context = self.target_context(request.prompt, blocks)
        new = text(blocks)
        target = np.array(
            [
                self.target_row(
                    request.target_next((*context, *proposed[:i])), (*new, *proposed[:i])
                )
                for i in range(len(proposed) + 1)
            ]
        )
        draft = draft_rows.reshape(len(proposed), target.shape[-1])
        rows = Rows(target[:-1], draft, target[-1])
        emitted, n_accepted = self.verifier.block(rows, proposed, draws)
        return BlockTrace(tuple(proposed), n_accepted, tuple(emitted), 0)
