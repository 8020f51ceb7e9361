"""vLLM's newer rejection sampler (of its second model runner), loaded and run as the older one is.

Its random numbers follow from a seed and a position of each request: a uniform for every accept
test, and hashed Gumbel noise for the last token. Ordinary calls compute them as vLLM does, from
seeds out of torch's global generator; under the exact tracer each becomes a random value, the same
one wherever the same seed, position and token meet.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from specverify.adapters.vllm import Compared, Rows
from specverify.adapters.vllm_files import load_sampler
from specverify.adapters.vllm_language import LANGUAGE, Value
from specverify.adapters.vllm_sampler import VllmSampler
from specverify.exact.reals import uniform
from specverify.exact.tape import active_tape

__all__ = ["Streams", "VllmRejectionSamplerV2", "load_rejection_sample", "seeds"]

_METHODS = ("standard", "block", "synthetic", "fly")


class VllmRejectionSamplerV2(VllmSampler):
    """``rejection_sample`` of vLLM's second model runner; a batch of blocks at temperature 1.

    Logits are the logarithms of the probabilities on both sides.
    """

    methods = _METHODS

    def _load(self) -> None:
        self._sample = load_rejection_sample()
        self._run = Compared(Streams().functions())

    def __call__(self, target_probs: Tensor, draft_probs: Tensor, draft_tokens: Tensor) -> Tensor:
        """Emitted ids, padded with -1, shape ``(batch, gamma + 1)``."""

        def sample(rows: Rows) -> Tensor:
            return rows(*self._emitted(target_probs, draft_probs, draft_tokens))

        return self._run(sample, tuple(draft_probs.shape))

    def _emitted(self, target: Tensor, draft: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
        batch, gamma, vocab = draft.shape
        rows, requests = gamma + 1, torch.arange(batch, dtype=torch.int32)
        places = torch.arange(rows, dtype=torch.int32)
        greedy = (target == 1).any(dim=-1).all(dim=-1) & self._greedy
        emitted, counts = self._sample(
            target.reshape(-1, vocab).float().log(),
            None if self._given else draft.float().log(),
            torch.nn.functional.pad(tokens, (1, 0)).reshape(-1),  # after the token before them
            torch.arange(batch + 1, dtype=torch.int32) * rows,
            places.repeat(batch).to(torch.int64),
            requests,
            requests.repeat_interleave(rows),
            places.repeat(batch),
            torch.where(greedy, 0.0, 1.0),
            seeds(batch),
            gamma,
            **self._settings(gamma),
        )
        return emitted, counts

    def _settings(self, gamma: int) -> dict[str, Any]:
        if self._method == "block":
            return {"use_block_verification": True}
        if self._method == "synthetic":
            return {"synthetic_conditional_rates": torch.full((gamma,), self._rate)}
        if self._method == "fly":
            return {"fly_window_size": self._window, "fly_entropy_threshold": self._entropy}
        return {}


def load_rejection_sample() -> Any:
    """The sampler's function, from the released wheel.

    Raises:
        MissingDependencyError: If vllm or triton is not installed.
    """
    return load_sampler("v1/worker/gpu/spec_decode/rejection_sampler_utils.py").rejection_sample


def seeds(batch: int) -> Tensor:
    """A seed for every request; distinct ones do where random values stand for the numbers."""
    if active_tape() is not None:
        return torch.arange(batch)
    return torch.randint(0, 2**62, (batch,))


class Streams:
    """Random values in the place of vLLM's random number generators, for one path at a time."""

    def __init__(self) -> None:
        self._tape: Any = None
        self._known: dict[tuple[Any, ...], Any] = {}

    def functions(self) -> dict[str, Callable[..., Any]]:
        """What stands for the functions of these names."""
        return {
            "tl_rand32": self._test,
            "murmur3_uniform32": self._noise,
            "_log1p_neg_stable": lambda value: LANGUAGE.log(1.0 - value),
        }

    def _test(self, seed: Value, pos: Value, includes_zero: bool) -> Value:
        return Value(self._uniform("tl_rand32", int(seed), int(pos)))

    def _noise(self, seed: Value, pos: Value, offset: Value) -> Value:
        keys = offset.data.tolist()
        cells = np.empty(len(keys), dtype=object)
        cells[:] = [self._uniform("murmur3_uniform32", int(seed), int(pos), key) for key in keys]
        return Value(cells)

    def _uniform(self, *key: Any) -> Any:
        if self._tape is not active_tape():
            self._tape, self._known = active_tape(), {}
        if key not in self._known:
            self._known[key] = uniform(key[0])
        return self._known[key]
