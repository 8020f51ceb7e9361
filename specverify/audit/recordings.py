"""Counting completions that are on record, shard after shard, as an engine's are counted."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from specverify.audit.engines import EngineScenario, count_passes, count_transforms
from specverify.audit.explanations import AS_TOLD, draft_variants, expected_passes
from specverify.audit.tally import Tally
from specverify.audit.targets import Target
from specverify.warping import SamplingParams

__all__ = ["RecordedSampler", "recorded_scenarios"]

_NAME = "recorded"


def recorded_scenarios(described: Iterable[Mapping[str, Any]]) -> list[EngineScenario]:
    """A scenario for each recording, as the target's record describes it."""
    return [
        EngineScenario(
            name=f"{_NAME}-{number}",
            purpose="completions on record",
            sampling=SamplingParams(
                record["temperature"], record["top_k"], record["top_p"], record["min_p"]
            ),
            length=record["length"],
            available=record["available"],
        )
        for number, record in enumerate(described)
    ]


class RecordedSampler:
    """Counts shards of one recording.

    Args:
        target: The recorded completions.
        name: Name of the scenario.
    """

    def __init__(self, target: Target, name: str) -> None:
        self._engine: Any = target.implementation
        self._which = int(name.rpartition("-")[2])
        info = self._engine.describe()
        self._gamma, self._prefill_emits = info.gamma, bool(info.prefill_emits)

    def run_at(self, start: int, n: int, seeds: np.random.SeedSequence) -> Tally:
        """Count ``n`` completions from number ``start``, fewer where there are no more.

        Args:
            start: First completion.
            n: How many.
            seeds: Source of the transform's uniforms.
        """
        tally, began = Tally(), time.perf_counter()
        recording = self._engine.recordings[self._which]
        rows = slice(start, start + n)
        tokens = recording.tokens[rows]
        laws = self._engine.laws(self._which, rows)
        target, draft = laws["target_probs"], laws.get("draft_probs")
        count_transforms(tally, tokens, target, draft, np.random.default_rng(seeds))
        passes = recording.counters.get("passes")
        if draft is not None and passes is not None and self._gamma is not None:
            plain = laws.get("plain_draft_probs", draft)
            drafts = draft_variants(draft, plain, recording.sampling)
            expected = expected_passes(
                tokens, target, drafts, self._gamma, prefill_emits=self._prefill_emits
            )
            count_passes(tally, tokens, (target, drafts[AS_TOLD]), passes[rows], expected)
            tally.table("gamma", (self._gamma + 1,))[self._gamma] += len(tokens)
        tally.table("calls", (1,))[0] += len(tokens)
        tally.seconds = time.perf_counter() - began
        return tally
