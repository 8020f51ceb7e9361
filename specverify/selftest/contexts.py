"""A decode loop as an engine over models that look two tokens back.

The decode form's scenarios look one token back: a cache that lost or kept a token before the last
cannot be seen there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specverify._arrays import FloatArray
from specverify.audit.config import AuditConfig
from specverify.audit.forms import Completions, EngineInfo, Form
from specverify.audit.run import audit
from specverify.bugs import Bug
from specverify.models.tabular import TabularModel
from specverify.selftest.audits import judged
from specverify.selftest.outcome import Sighting
from specverify.selftest.settings import LEVEL, Settings
from specverify.warping import SamplingParams, warp_probs

__all__ = ["LoopEngine", "audit_as_engine"]

_VOCAB, _ORDER, _GAMMA = 4, 2, 3
_AGREEMENT = 0.6


def audit_as_engine(bug: Bug, settings: Settings, seed: int) -> Sighting:
    """Audit a decode loop's completions and passes over models of order 2."""
    config = AuditConfig(
        form=Form.GENERATE,
        isolation="inline",
        tv=settings.tv,
        false_alarm=LEVEL,
        scenarios=settings.scenarios,
    )
    return judged(audit(LoopEngine(bug.callable), config=config, seed=seed), bug, way="engine")


@dataclass(frozen=True, eq=False)
class _Law:
    """The target's law of an engine's completions."""

    model: TabularModel

    def probs(
        self, prompt: Sequence[int], tokens: NDArray[np.int64], sampling: SamplingParams
    ) -> FloatArray:
        """Conditional laws along completions, shape ``(n, length, vocab)``."""
        n, length = tokens.shape
        texts = np.concatenate([np.tile(prompt, (n, 1)), np.maximum(tokens, 0)], axis=1)
        rows = [
            [self.model.next_probs(text[: len(prompt) + i]) for i in range(length)]
            for text in texts.tolist()
        ]
        return np.asarray(warp_probs(np.array(rows), sampling))


class LoopEngine:
    """Runs a decode loop as often as completions are asked for.

    Args:
        decode: The loop; numpy arrays and a ``numpy.random.Generator``.
    """

    def __init__(self, decode: Any) -> None:
        self._decode = decode
        rng = np.random.default_rng([_VOCAB, _ORDER])
        laws = rng.dirichlet(np.full(_VOCAB, 0.5), size=(_VOCAB,) * _ORDER)
        target = 0.9 * laws + 0.1 / _VOCAB
        noise = rng.dirichlet(np.ones(_VOCAB), size=(_VOCAB,) * _ORDER)
        self._target = TabularModel(target)
        self._draft = TabularModel(_AGREEMENT * target + (1 - _AGREEMENT) * noise)

    def describe(self) -> EngineInfo:
        """What it is."""
        return EngineInfo(
            name="decode loop",
            version="",
            randomness="numpy generator",
            vocab_size=_VOCAB,
            gamma=_GAMMA,
        )

    def reference(self) -> _Law:
        """The target's law."""
        return _Law(self._target)

    def draft_probs(
        self, prompt: Sequence[int], tokens: NDArray[np.int64], sampling: SamplingParams
    ) -> FloatArray:
        """The draft's laws along completions, shape ``(n, length, vocab)``."""
        return _Law(self._draft).probs(prompt, tokens, sampling)

    def sample(
        self, prompt: Sequence[int], n: int, length: int, sampling: SamplingParams, seed: int
    ) -> Completions:
        """Decode ``n`` completions of ``length`` tokens."""
        rng = np.random.default_rng(seed)
        steps = [self._step(model, sampling) for model in (self._target, self._draft)]
        tokens, passes = [], []
        for _ in range(n):
            ids, trace = self._decode(np.array(prompt), *steps, _GAMMA, length, rng)
            tokens.append(ids)
            passes.append(len(trace))
        return Completions(tokens=np.array(tokens), passes=np.array(passes))

    @staticmethod
    def _step(model: TabularModel, sampling: SamplingParams) -> Any:
        table = np.asarray(warp_probs(model.table, sampling))
        warped = TabularModel(table)
        return lambda context: warped.next_probs(context.tolist())
