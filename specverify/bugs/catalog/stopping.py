"""Completions that end at the wrong place."""

from __future__ import annotations

from specverify.bugs.base import Bug, Kind, Stage
from specverify.bugs.loops import Blocks, Request, StagedDecoder, standard_cut, text

_Cut = tuple[tuple[int, ...], bool]


def _at_block_end(request: Request, blocks: Blocks) -> _Cut:
    tokens = text(blocks)[: request.max_new_tokens]
    over = request.eos_token_id in tokens or len(tokens) == request.max_new_tokens
    return tokens, over


PAST_EOS = Bug(
    name="past_eos",
    kind=Kind.DECODE,
    stage=Stage.STOPPING,
    mathematics="the block that holds an accepted EOS is kept to its end",
    expected_check="length, EOS inside a block",
    reference="transformers#47912, koboldcpp#1276, llama.cpp#28049",
    callable=StagedDecoder(cut=_at_block_end),
    blind="no EOS",
    scene="eos",
)


def _overshooting(request: Request, blocks: Blocks) -> _Cut:
    tokens = text(blocks)
    if request.eos_token_id in tokens:
        return tokens[: tokens.index(request.eos_token_id) + 1], True
    return tokens, len(tokens) >= request.max_new_tokens


OVERSHOOT = Bug(
    name="overshoot",
    kind=Kind.DECODE,
    stage=Stage.STOPPING,
    mathematics="the last block is not cut: up to gamma tokens more than asked for",
    expected_check="length",
    reference="lattice#242, transformers#47195",
    callable=StagedDecoder(cut=_overshooting),
    scene="short",
)


def _cap_first(request: Request, blocks: Blocks) -> _Cut:
    tokens = text(blocks)
    if len(tokens) >= request.max_new_tokens:
        return tokens[: request.max_new_tokens], True
    return standard_cut(request, blocks)


CAP_HIDES_STOP = Bug(
    name="cap_hides_stop",
    kind=Kind.DECODE,
    stage=Stage.STOPPING,
    mathematics="once the length is reached, an EOS inside the last block is not looked for",
    expected_check="finish reason, length",
    reference="sglang#31599",
    callable=StagedDecoder(cut=_cap_first),
    blind="no EOS; completions that do not reach the length",
    scene="eos",
)


def _a_block_short(request: Request, blocks: Blocks) -> _Cut:
    tokens, over = standard_cut(request, blocks)
    if over and len(tokens) == request.max_new_tokens:
        tokens = tokens[: max(request.max_new_tokens - request.gamma - 1, 0)]
    return tokens, over


BLOCK_MISSING = Bug(
    name="block_missing",
    kind=Kind.DECODE,
    stage=Stage.STOPPING,
    mathematics="exactly gamma + 1 tokens are missing at the end",
    expected_check="length over gamma",
    reference="exllamav3#281",
    callable=StagedDecoder(cut=_a_block_short),
    scene="eos",
)


def _index_off(request: Request, blocks: Blocks) -> _Cut:
    tokens, over = standard_cut(request, blocks)
    if request.eos_token_id in tokens:
        longer = text(blocks)[: len(tokens) + blocks[-1].n_accepted]
        return longer[: request.max_new_tokens], True
    return tokens, over


STOP_INDEX_OFF = Bug(
    name="stop_index_off",
    kind=Kind.DECODE,
    stage=Stage.STOPPING,
    mathematics="the index of the stop is off by the number of accepted drafts",
    expected_check="length, EOS inside a block",
    reference="FastDeploy#7121",
    callable=StagedDecoder(cut=_index_off),
    blind="no stop; a stop that ends its block",
    scene="eos",
)


def _first_token_lost(request: Request, blocks: Blocks) -> _Cut:
    tokens = text(blocks)[1:][: request.max_new_tokens]
    if request.eos_token_id in tokens:
        return tokens[: tokens.index(request.eos_token_id) + 1], True
    return tokens, len(tokens) == request.max_new_tokens


FIRST_TOKEN_LOST = Bug(
    name="first_token_lost",
    kind=Kind.DECODE,
    stage=Stage.STOPPING,
    mathematics="the first new token conditions the others and is not returned: the right law, "
    "shifted by one",
    expected_check="first marginal",
    reference="litgpt#2307",
    callable=StagedDecoder(cut=_first_token_lost),
    blind="a target free of context",
    scene="M3",
)
