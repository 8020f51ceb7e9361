"""The shipped pair and our batched decoding as an engine, to be audited as one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from specverify.audit.forms import Completions, EngineInfo, TargetLaw
from specverify.models.law import ModelLaw
from specverify.models.pairs import load_model, load_pair
from specverify.sampler.cached_batch import decode_cached_batch
from specverify.warping import SamplingParams

__all__ = ["OwnEngine"]

_GAMMA = 4


class OwnEngine:
    """``decode_cached_batch`` on the shipped pair, gamma 4."""

    def __init__(self) -> None:
        self._pair = load_pair()
        self._wide = load_model(self._pair.target_source, torch.float64)

    def describe(self) -> EngineInfo:
        """Name, vocabulary and gamma."""
        return EngineInfo(
            name="specverify decode_cached_batch",
            version="this one",
            randomness="a numpy generator a completion",
            vocab_size=self._pair.target.vocab_size,
            gamma=_GAMMA,
            quick=True,
        )

    def sample(
        self,
        prompt: Sequence[int],
        n: int,
        max_new_tokens: int,
        sampling: SamplingParams,
        seed: int,
    ) -> Completions:
        """Draw completions side by side.

        Args:
            prompt: Ids, at least one.
            n: Number of completions.
            max_new_tokens: Length of each.
            sampling: Temperature and filters.
            seed: Root of every draw.
        """
        seeds = np.random.SeedSequence(seed).spawn(n)
        rows = decode_cached_batch(
            self._pair.target,
            self._pair.draft,
            [prompt] * n,
            gamma=_GAMMA,
            max_new_tokens=max_new_tokens,
            sampling=sampling,
            generators=[np.random.default_rng(row) for row in seeds],
        )
        traces = [trace for _, trace in rows]
        return Completions(
            tokens=np.stack([tokens for tokens, _ in rows]),
            accepted=np.array([trace.accepted for trace in traces]),
            drafted=np.array([trace.drafted for trace in traces]),
            passes=np.array([trace.passes for trace in traces]),
        )

    def reference(self) -> TargetLaw:
        """The target in float64."""
        return ModelLaw(self._wide)
