"""State that does not hold the tokens that it should."""

from __future__ import annotations

from collections.abc import Callable

from specverify.bugs.base import Bug, Effect, Kind, Stage
from specverify.bugs.loops import Blocks, StagedDecoder, text
from specverify.bugs.staged import Block, StagedVerifier

_Tokens = tuple[int, ...]
_Context = Callable[[_Tokens, Blocks], _Tokens]


def _both(context: _Context) -> Callable[[Blocks], tuple[_Tokens, _Tokens]]:
    """The text and the wrong context: together they decide all that follows."""
    return lambda blocks: (text(blocks), context((), blocks))


def _without_bonus(prompt: _Tokens, blocks: Blocks) -> _Tokens:
    """A bonus token was drawn from the target: the draft never ran it."""
    full = [block.n_accepted == len(block.proposed) for block in blocks]
    kept = [
        block.emitted[: block.n_accepted] if all_kept else block.emitted
        for block, all_kept in zip(blocks, full, strict=True)
    ]
    return prompt + tuple(token for tokens in kept for token in tokens)


STALE_DRAFT_CACHE = Bug(
    name="stale_draft_cache",
    kind=Kind.DECODE,
    stage=Stage.CACHE,
    mathematics="after a fully accepted block the draft's context lacks the bonus token",
    expected_check="acceptance after a full accept",
    reference="vllm#9730",
    effect=Effect.EFFICIENCY,
    callable=StagedDecoder(draft_context=_without_bonus, memory=_both(_without_bonus)),
    blind="the law; a draft free of context",
    scene="R2",
)


def _untrimmed(prompt: _Tokens, blocks: Blocks) -> _Tokens:
    """Everything that was run: rejected drafts as well."""
    seen = [(*block.proposed, block.emitted[-1]) for block in blocks]
    return prompt + tuple(token for tokens in seen for token in tokens)


RECURRENT_STATE_UNTRIMMED = Bug(
    name="recurrent_state_untrimmed",
    kind=Kind.DECODE,
    stage=Stage.CACHE,
    mathematics="a trim is a no-op: rejected drafts stay in the target's state",
    expected_check="law after a rollback",
    reference="mlx-lm#1109",
    callable=StagedDecoder(target_context=_untrimmed, memory=_both(_untrimmed)),
    blind="the first block; a target of order 1",
    scene="R2",
)


def _restarted(prompt: _Tokens, blocks: Blocks) -> _Tokens:
    """A rejection empties the draft's cache instead of rolling it back."""
    kept: _Tokens = prompt
    for block in blocks:
        rejected = block.n_accepted < len(block.proposed)
        kept = block.emitted[-1:] if rejected else kept + block.emitted
    return kept


DRAFT_CACHE_RESET = Bug(
    name="draft_cache_reset",
    kind=Kind.DECODE,
    stage=Stage.CACHE,
    mathematics="a rejection empties the draft's cache in place of a rollback",
    expected_check="acceptance by position in the completion",
    reference="aprender#2014",
    effect=Effect.EFFICIENCY,
    callable=StagedDecoder(draft_context=_restarted, memory=_both(_restarted)),
    blind="the law; a draft of order 1",
    scene="R2",
)


def _first_slot(prompt: _Tokens, blocks: Blocks) -> _Tokens:
    """The state after the first token of the last block, whatever was accepted."""
    if not blocks:
        return prompt
    return prompt + text(blocks[:-1]) + blocks[-1].emitted[:1]


STATE_FROM_SLOT_ZERO = Bug(
    name="state_from_slot_zero",
    kind=Kind.DECODE,
    stage=Stage.CACHE,
    mathematics="the target's state is read from slot 0 of the last block, not from the last one",
    expected_check="law after an accept",
    reference="vllm#39273, vllm#56531",
    callable=StagedDecoder(target_context=_first_slot, memory=_both(_first_slot)),
    blind="the first block; a target free of context",
    scene="R2",
)


def _with_rejected(tokens: list[int], n_accepted: int, final: int | None) -> Block:
    rejected = tokens[n_accepted : n_accepted + 1]
    return [*tokens[:n_accepted], *rejected, *([] if final is None else [final])], n_accepted


REJECTED_KEPT = Bug(
    name="rejected_kept",
    kind=Kind.VERIFY,
    stage=Stage.CACHE,
    mathematics="the rejected draft stays in the output, before its correction",
    expected_check="length, joint",
    reference="lucidrains/speculative-decoding#3",
    callable=StagedVerifier(emit=_with_rejected),
    blind="p = q",
    scene="P1",
)
