"""From a form to the sampler that runs it."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeAlias

import numpy as np

from specverify.audit.batches import as_block_verifier
from specverify.audit.blocks import BlockSampler, block_case
from specverify.audit.decoding import DecodeSampler, decode_case
from specverify.audit.engines import EngineSampler, EngineScenario, engine_case
from specverify.audit.forms import Form
from specverify.audit.observer import Observer
from specverify.audit.recordings import RecordedSampler
from specverify.audit.scenarios import Scenario
from specverify.audit.suites import AnyScenario, find_scenario
from specverify.audit.tally import Tally
from specverify.audit.targets import Target
from specverify.audit.wire import SEARCH_SHARD, Task

__all__ = ["Bench", "call_case"]


Draw: TypeAlias = Callable[[int], tuple[Tally, list[tuple[int, ...]]]]
"""Draws ordinary completions of a length: their counts, and what they emitted."""


class Sampler(Protocol):
    """Runs one scenario of one form."""

    def run(self, n: int, seeds: np.random.SeedSequence, *, probe: bool = False) -> Tally:
        """Draw ``n`` completions and count them."""


class Bench:
    """A target with its samplers, made when they are first needed.

    Args:
        target: The implementation.
        observer: Told of every call.
        seed: Root seed.
    """

    def __init__(self, target: Target, observer: Observer, seed: int) -> None:
        self._target = target
        self._observer = observer
        self._seed = seed
        self._samplers: dict[str, Sampler] = {}

    def run(self, task: Task) -> Tally:
        """Sample or trace one shard; its seeds depend on root, scenario and shard alone."""
        if task.exact:
            return self._trace(task)
        if hasattr(self._target.implementation, "recordings"):
            recorded = RecordedSampler(self._target, task.scenario)
            return recorded.run_at(task.shard * task.n, task.n, self._seeds(task))
        if task.scenario not in self._samplers:
            self._samplers[task.scenario] = self._make(task.scenario)
        return self._samplers[task.scenario].run(task.n, self._seeds(task), probe=task.probe)

    def _seeds(self, task: Task) -> np.random.SeedSequence:
        # The name's checksum: which other scenarios are run changes nothing.
        key = (zlib.crc32(task.scenario.encode()), task.shard)
        return np.random.SeedSequence(self._seed, spawn_key=key)

    def _trace(self, task: Task) -> Tally:
        # The tracer is loaded where something is traced, and not before.
        from specverify.audit import counterexamples, exactly

        scenario = find_scenario(self._target.form, task.scenario)
        if isinstance(scenario, EngineScenario):
            return self._trace_engine(task, scenario)
        assert isinstance(scenario, Scenario)
        if task.shard == SEARCH_SHARD:
            return counterexamples.search_tally(self._target, scenario, self._observer)
        draw = self._confirmer(task, scenario)
        return exactly.traced_tally(self._target, scenario, self._observer, draw)

    def _trace_engine(self, task: Task, scenario: EngineScenario) -> Tally:
        from specverify.audit import engine_exact

        if task.shard == SEARCH_SHARD:
            return engine_exact.search_tally(self._target)
        sampler = EngineSampler(self._target, scenario, self._observer)
        record, law = engine_exact.examine(self._target.implementation.smallest(), scenario.length)
        tally = sampler.run(task.n, self._seeds(task), probe=task.probe) if law else Tally()
        return engine_exact.with_record(tally, record, law, sampler.outcomes)

    def _confirmer(self, task: Task, scenario: Scenario) -> Draw:
        """Ordinary completions of the scenario, or of one that asks for fewer tokens."""

        def draw(length: int) -> tuple[Tally, list[tuple[int, ...]]]:
            sampler = self._make_block_sampler(replace(scenario, length=length), traced=True)
            tally = sampler.run(task.n, self._seeds(task), probe=task.probe)
            return tally, sampler.outcomes

        return draw

    def _make(self, name: str) -> Sampler:
        scenario = find_scenario(self._target.form, name)
        if isinstance(scenario, EngineScenario):
            return EngineSampler(self._target, scenario, self._observer)
        return self._make_block_sampler(scenario)

    def _make_block_sampler(
        self, scenario: Scenario, *, traced: bool = False
    ) -> BlockSampler | DecodeSampler:
        if self._target.form is Form.DECODE:
            return DecodeSampler(self._target, scenario, self._observer)
        if self._target.form is Form.VERIFY:
            return BlockSampler(self._target, scenario, self._observer)
        verifier = as_block_verifier(self._target, traced=traced)
        return BlockSampler(verifier, scenario, self._observer)


def call_case(scenario: AnyScenario, note: Sequence[int]) -> dict[str, Any]:
    """The input of the call that a note was taken of; of none, or of a traced one, the scenario."""
    if isinstance(scenario, EngineScenario):
        return engine_case(scenario, note)
    if scenario.form is Form.DECODE:
        return decode_case(scenario, note)
    return block_case(scenario, note) if len(note) > 1 else {"scenario": scenario.name}
