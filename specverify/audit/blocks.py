"""Sampling a block verifier: drafts drawn here, blocks completed to ``gamma + 1`` tokens."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from specverify._arrays import to_numpy
from specverify.audit.calls import (
    RowSource,
    guarded,
    ids_to_framework,
    invoke,
    read_count,
    read_tokens,
    split_result,
)
from specverify.audit.counting import Block, count_blocks, count_completions
from specverify.audit.observer import Observer
from specverify.audit.randomness import make_generator, seed_global_generators
from specverify.audit.scenarios import Scenario
from specverify.audit.tally import Tally
from specverify.audit.targets import Target
from specverify.errors import ImplementationError, InputMutatedError

__all__ = ["BlockSampler", "block_case"]

_PROBED_CALLS = 16
_MUTATION_STRIDE = 64


class BlockSampler:
    """Runs one scenario of the verify form.

    Args:
        target: The implementation.
        scenario: The rows.
        observer: Told of every call.

    Attributes:
        outcomes: What the first block of each completion of the last run emitted.
    """

    def __init__(self, target: Target, scenario: Scenario, observer: Observer) -> None:
        self._target = target
        self._scenario = scenario
        self._observer = observer
        chain = scenario.chain
        self._target_rows = RowSource(chain.target, target.framework)
        self._draft_rows = RowSource(chain.draft, target.framework)
        # Drafts are drawn from the very rows that the implementation is handed, rounding included.
        handed = to_numpy(self._draft_rows.handed).astype(np.float64)
        self._cumulative = np.cumsum(handed, axis=-1).tolist()
        self.outcomes: list[tuple[int, ...]] = []

    def run(self, n: int, seeds: np.random.SeedSequence, *, probe: bool = False) -> Tally:
        """Draw ``n`` completions.

        Args:
            n: Number of completions.
            seeds: Source of the drafts' and of the implementation's randomness.
            probe: Whether to look for mutated inputs and for answers that a seed does not fix,
                before sampling.

        Returns:
            The counts; with ``error`` where the implementation misbehaved, and everything that
            was sampled before.
        """
        tally, started = Tally(), time.perf_counter()
        drafting, calling = seeds.spawn(2)
        self._uniforms = _uniform_stream(np.random.default_rng(drafting))
        words = calling.generate_state(2 + _PROBED_CALLS, np.uint64)
        first, second, *probes = (int(word >> 1) for word in words)
        self._generator = make_generator(self._target.framework, first)
        seed_global_generators(second)
        self._calls = 0
        blocks: list[Block] = []
        completions: list[list[int]] = []
        try:
            if probe:
                self._probe(tally, probes)
            for _ in range(n):
                completions.append(self._completion(blocks))
        except ImplementationError as error:
            tally.fail(error)
        self.outcomes = [tuple(emitted) for _, emitted, _ in blocks]
        count_completions(tally, self._scenario, completions)
        count_blocks(tally, self._scenario, blocks)
        tally.table("calls", (1,))[0] += self._calls
        tally.seconds = time.perf_counter() - started
        return tally

    def _case(self, start: int, previous: int, drafts: list[int]) -> dict[str, Any]:
        return block_case(self._scenario, (start, previous, *drafts))

    def _completion(self, blocks: list[Block]) -> list[int]:
        tokens: list[int] = []
        previous = self._scenario.chain.start
        while len(tokens) < self._scenario.length:
            drafts = self._draft(len(tokens), previous)
            emitted, reported = self._call(len(tokens), previous, drafts)
            if not tokens:
                blocks.append((drafts, emitted, reported))
            tokens += emitted
            previous = tokens[-1]
        return tokens[: self._scenario.length]

    def _draft(self, start: int, previous: int) -> list[int]:
        drafts: list[int] = []
        chain = self._scenario.chain
        for position in range(start, start + self._scenario.gamma):
            # The rows of a block look one token back at most: what was before it is no matter.
            cumulative = self._cumulative[position][chain.after(0, previous)]
            previous = bisect_right(cumulative, next(self._uniforms) * cumulative[-1])
            previous = min(previous, len(cumulative) - 1)
            drafts.append(previous)
        return drafts

    def _rows(self, start: int, previous: int, drafts: list[int]) -> tuple[Any, Any]:
        contexts = [previous, *drafts]
        return self._target_rows.pick(start, contexts), self._draft_rows.pick(start, contexts[:-1])

    def _call(self, start: int, previous: int, drafts: list[int]) -> tuple[list[int], int | None]:
        drafted = ids_to_framework(drafts, self._target.framework)
        rows = (*self._rows(start, previous, drafts), drafted)
        self._calls += 1
        self._observer.begin((start, previous, *drafts))
        try:
            result = guarded(lambda: invoke(self._target, rows, self._generator), self._target)
            self._observer.end()
            emitted, reported = split_result(result)
            tokens = read_tokens(emitted, len(drafts) + 1, self._scenario.vocab_size)
            count = read_count(reported, len(drafts))
            if self._calls <= _MUTATION_STRIDE or self._calls % _MUTATION_STRIDE == 0:
                self._refuse_mutation(rows, start, previous, drafts)
        except ImplementationError as error:
            self._observer.end()
            error.case = error.case or self._case(start, previous, drafts)
            raise
        return tokens, count

    def _refuse_mutation(
        self, rows: tuple[Any, ...], start: int, previous: int, drafts: list[int]
    ) -> None:
        originals = (*self._rows(start, previous, drafts), np.array(drafts))
        names = ("target_probs", "draft_probs", "draft_tokens")
        for name, row, original in zip(names, rows, originals, strict=True):
            if not np.array_equal(to_numpy(row), to_numpy(original), equal_nan=True):
                raise InputMutatedError(f"wrote into its argument {name}")

    def _probe(self, tally: Tally, seeds: Sequence[int]) -> None:
        repeats = tally.table("repeats", (2,))
        for seed in seeds:
            start, previous = 0, self._scenario.chain.start
            drafts = self._draft(start, previous)
            answers = []
            for _ in range(2):
                self._generator = make_generator(self._target.framework, seed)
                seed_global_generators(seed)
                answers.append(self._call(start, previous, drafts))
            repeats[int(answers[0] != answers[1])] += 1
            if answers[0] != answers[1]:
                case = self._case(start, previous, drafts)
                tally.note("not-reproducible", case | {"answers": [list(a[0]) for a in answers]})


def _uniform_stream(rng: np.random.Generator) -> Iterator[float]:
    while True:
        yield from rng.random(4096).tolist()


def block_case(scenario: Scenario, note: Sequence[int]) -> dict[str, Any]:
    """The input of a call, JSON-compatible, from the observer's note of it.

    Args:
        scenario: Where the call was made.
        note: First row, token before it, drafts.

    Returns:
        Rows and drafts; of a large vocabulary the rows are left to the scenario's name.
    """
    start, previous, *drafts = note
    case: dict[str, Any] = {
        "scenario": scenario.name,
        "first_row": start,
        "token_before": previous,
        "draft_tokens": drafts,
    }
    if scenario.vocab_size <= 64:
        chain = scenario.chain
        rows = start + np.arange(len(drafts) + 1)
        contexts = [chain.after(0, token) for token in (previous, *drafts)]
        case["target_probs"] = chain.target[rows, contexts].tolist()
        case["draft_probs"] = chain.draft[rows[:-1], contexts[:-1]].tolist()
    return case
