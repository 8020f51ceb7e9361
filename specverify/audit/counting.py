"""From completions and blocks to counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from specverify.audit.cells import token_cells
from specverify.audit.scenarios import Scenario
from specverify.audit.tally import Tally

__all__ = [
    "MAX_PATHS",
    "Block",
    "Round",
    "block_number",
    "count_blocks",
    "count_completions",
    "count_rounds",
    "pair_classes",
    "paths_are_counted",
]

Block: TypeAlias = tuple[list[int], list[int], int | None]
"""Drafts, emitted tokens, and the reported number of accepted drafts."""

Round: TypeAlias = tuple[int, list[int], list[int], int | None]
"""Context before the round, and the round's block."""

MAX_PATHS = 2048
"""Joint laws are counted whole up to this many completions, else by neighbouring pairs."""

_PAIR_CLASSES = 4


def count_completions(tally: Tally, scenario: Scenario, completions: list[list[int]]) -> None:
    """Count tokens by position and context, whole completions or pairs, and impossible tokens."""
    if not completions:
        return
    chain, length = scenario.chain, scenario.length
    tokens = np.array(completions, dtype=np.int64)
    contexts = chain.trail(chain.start, tokens[:, :-1])
    positions = np.broadcast_to(np.arange(length), tokens.shape)
    counts = tally.table("token", (length, chain.contexts, chain.vocab_size))
    np.add.at(counts, (positions, contexts, tokens), 1)
    _count_joint(tally, scenario, tokens)
    impossible = chain.target[positions, contexts, tokens] == 0
    tally.table("impossible", (length,))[...] += impossible.sum(axis=0)
    for row, position in np.argwhere(impossible)[:1]:
        tally.note(
            "impossible",
            {
                "scenario": scenario.name,
                "completion": tokens[row].tolist(),
                "position": int(position),
                "token": int(tokens[row, position]),
            },
        )


def _count_joint(tally: Tally, scenario: Scenario, tokens: NDArray[np.int64]) -> None:
    vocab, length = scenario.vocab_size, scenario.length
    if length < 2:
        return
    if paths_are_counted(scenario):
        path = np.ravel_multi_index(tuple(tokens.T), (vocab,) * length)
        tally.table("path", (vocab**length,))[...] += np.bincount(path, minlength=vocab**length)
        return
    classes = pair_classes(scenario)
    size = int(classes.max()) + 1
    labels = classes[np.arange(length), tokens]
    pairs = tally.table("pairs", (length - 1, size, size))
    earlier = np.broadcast_to(np.arange(length - 1), labels[:, 1:].shape)
    np.add.at(pairs, (earlier, labels[:, :-1], labels[:, 1:]), 1)


def paths_are_counted(scenario: Scenario) -> bool:
    """Whether completions are counted whole."""
    return bool(scenario.vocab_size**scenario.length <= MAX_PATHS)


def pair_classes(scenario: Scenario) -> NDArray[np.int64]:
    """Class of each token at each position for counting pairs, shape ``(length, vocab)``."""
    chain = scenario.chain
    rows = [
        token_cells(
            chain.target[position].mean(axis=0),
            chain.draft[position].mean(axis=0),
            1e6,
            max_cells=_PAIR_CLASSES,
        )
        for position in range(scenario.length)
    ]
    return np.array(rows)


def count_blocks(tally: Tally, scenario: Scenario, blocks: list[Block]) -> None:
    """Count the first blocks: tokens by position in the block, accepted drafts, counters."""
    if not blocks:
        return
    count_rounds(tally, scenario, [(scenario.chain.start, *block) for block in blocks])
    emitted = [emitted for _, emitted, _ in blocks]
    _count_positions(tally, scenario, emitted)
    size = (scenario.vocab_size + 1) ** (scenario.gamma + 1)
    if size <= 2 * MAX_PATHS:
        paths = tally.table("block-path", (size,))
        for tokens in emitted:
            paths[block_number(tokens, scenario)] += 1


def count_rounds(tally: Tally, scenario: Scenario, rounds: list[Round]) -> None:
    """Count accepted drafts and emitted tokens of rounds, by the context they start from."""
    if not rounds:
        return
    gamma, chain = scenario.gamma, scenario.chain
    outcomes = tally.table("blocks", (chain.contexts, gamma + 1, gamma + 2))
    reports = []
    for context, drafts, emitted, reported in rounds:
        accepted = _prefix(drafts, emitted)
        outcomes[context, accepted, len(emitted)] += 1
        if reported is not None:
            reports.append((reported, accepted, len(emitted)))
    if reports:
        _count_reports(tally, np.array(reports), gamma)
    _count_stages(tally, scenario, rounds)


def block_number(tokens: Sequence[int], scenario: Scenario) -> int:
    """Number of an emitted block: its digits are the ids plus one, 0 where nothing was emitted."""
    number = 0
    for position in range(scenario.gamma + 1):
        digit = tokens[position] + 1 if position < len(tokens) else 0
        number = number * (scenario.vocab_size + 1) + digit
    return number


def _count_reports(tally: Tally, reported: NDArray[np.int64], gamma: int) -> None:
    """Reports that equal the accepted prefix; the number emitted but not it; neither.

    Apart from them those that no scheme explains: every counted draft was emitted as it stood, and
    one token follows it, or none after a block whose drafts were all accepted.
    """
    count, accepted, length = reported.T
    right = count == accepted
    emitted = (count == length) & ~right
    table = tally.table("reports", (3,))
    table += np.array([right.sum(), emitted.sum(), (~right & ~emitted).sum()])
    whole = (length == count) & (count == gamma)
    broken = (count > accepted) | ~((length == count + 1) | whole)
    tally.table("reports-broken", (2,))[...] += np.bincount(broken, minlength=2)


def _count_stages(tally: Tally, scenario: Scenario, rounds: list[Round]) -> None:
    """Read rounds as the standard rule writes them: accepted drafts, then one token more.

    By position in the block, context and token: drafts accepted, drafts rejected, and the last
    tokens (corrections; bonus tokens at the position after the last draft). Rounds that cannot be
    read so are counted apart.
    """
    gamma, chain = scenario.gamma, scenario.chain
    stages = tally.table("stages", (gamma + 1, chain.contexts, 3, chain.vocab_size))
    unread = tally.table("stages-unread", (1,))
    for context, drafts, emitted, _ in rounds:
        kept = len(emitted) - 1
        if not 0 <= kept <= gamma or emitted[:kept] != drafts[:kept]:
            unread += 1
            continue
        for position, token in enumerate(drafts[:kept]):
            stages[position, context, 0, token] += 1
            context = chain.after(context, token)
        if kept < gamma:
            stages[kept, context, 1, drafts[kept]] += 1
        stages[kept, context, 2, emitted[kept]] += 1


def _count_positions(tally: Tally, scenario: Scenario, emitted: list[list[int]]) -> None:
    chain = scenario.chain
    counts = tally.table("block-token", (scenario.gamma + 1, chain.contexts, chain.vocab_size))
    for tokens in emitted:
        context = chain.start
        for position, token in enumerate(tokens):
            counts[position, context, token] += 1
            context = chain.after(context, token)


def _prefix(drafts: list[int], emitted: list[int]) -> int:
    """Number of leading emitted tokens that are the drafts."""
    for position, (draft, token) in enumerate(zip(drafts, emitted, strict=False)):
        if draft != token:
            return position
    return min(len(drafts), len(emitted))
