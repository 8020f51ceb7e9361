"""From a form to the sampler that runs it."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from specverify.audit.batches import as_block_verifier
from specverify.audit.blocks import BlockSampler, block_case
from specverify.audit.decoding import DecodeSampler, decode_case
from specverify.audit.engines import EngineSampler, EngineScenario, engine_case
from specverify.audit.forms import Form
from specverify.audit.observer import Observer
from specverify.audit.suites import AnyScenario, find_scenario
from specverify.audit.tally import Tally
from specverify.audit.targets import Target
from specverify.audit.wire import Task

__all__ = ["Bench", "call_case"]


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
        """Sample one shard; its seeds depend on root, scenario and shard alone."""
        if task.scenario not in self._samplers:
            self._samplers[task.scenario] = self._make(task.scenario)
        # The name's checksum: which other scenarios are run changes nothing.
        key = (zlib.crc32(task.scenario.encode()), task.shard)
        seeds = np.random.SeedSequence(self._seed, spawn_key=key)
        return self._samplers[task.scenario].run(task.n, seeds, probe=task.probe)

    def _make(self, name: str) -> Sampler:
        scenario = find_scenario(self._target.form, name)
        if isinstance(scenario, EngineScenario):
            return EngineSampler(self._target, scenario, self._observer)
        if self._target.form is Form.DECODE:
            return DecodeSampler(self._target, scenario, self._observer)
        if self._target.form is Form.VERIFY:
            return BlockSampler(self._target, scenario, self._observer)
        return BlockSampler(as_block_verifier(self._target), scenario, self._observer)


def call_case(scenario: AnyScenario, note: Sequence[int]) -> dict[str, Any]:
    """The input of the call that a note was taken of."""
    if isinstance(scenario, EngineScenario):
        return engine_case(scenario, note)
    describe = decode_case if scenario.form is Form.DECODE else block_case
    return describe(scenario, note)
