"""LitGPT's speculative ``generate`` on a pair of its own ``GPT`` models, with drawn weights."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import metadata
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from specverify.adapters.loading import load_module
from specverify.audit.forms import Completions, EngineInfo, TargetLaw
from specverify.errors import InvalidInputError
from specverify.models.law import ModelLaw
from specverify.warping import SamplingParams

__all__ = ["LitGPTEngine"]

_SIZES = {
    "block_size": 64,
    "n_layer": 1,
    "n_head": 2,
    "n_query_groups": 2,
    "n_embd": 16,
    "intermediate_size": 16,
    "rotary_percentage": 1.0,
    "norm_class_name": "RMSNorm",
    "mlp_class_name": "LLaMAMLP",
    "bias": False,
}
_SEED, _SPREAD, _HEAD, _DRAFT_NOISE = 1, 1.0, 2.5, 0.3
_TOLERANCE = 1e-4
"""Total variation that float32 may make from float64 at these sizes."""


class LitGPTEngine:
    """``generate`` with a draft model, one completion at a time.

    It returns one token fewer than there is room for, or exactly as many: one more is asked for,
    and what is beyond the length is cut.

    Args:
        gamma: Drafted tokens in a pass, at least 1.
        vocab_size: Tokens of its models, at least 2.

    Raises:
        InvalidInputError: If a setting is out of its range.
        MissingDependencyError: If litgpt is not installed.
    """

    def __init__(self, *, gamma: int = 3, vocab_size: int = 32) -> None:
        for name, value, least in (("gamma", gamma, 1), ("vocab_size", vocab_size, 2)):
            if value < least:
                raise InvalidInputError(name, f"must be at least {least}, got {value}")
        self._generate = load_module("litgpt.generate.speculative_decoding", "litgpt").generate
        self._gamma, self._vocab = gamma, vocab_size
        self._target, self._draft = self._pair(torch.float32)
        self._exact = self._pair(torch.float64)

    def describe(self) -> EngineInfo:
        """Version and settings."""
        return EngineInfo(
            name="LitGPT generate(speculative_k)",
            version=metadata.version("litgpt"),
            randomness="global torch generator",
            vocab_size=self._vocab,
            gamma=self._gamma,
            tolerance=_TOLERANCE,
            details={"weights": f"drawn, seed {_SEED}"} | _SIZES,
        )

    def sample(
        self,
        prompt: Sequence[int],
        n: int,
        max_new_tokens: int,
        sampling: SamplingParams,
        seed: int,
    ) -> Completions:
        """Decode completions one after the other.

        Args:
            prompt: Ids, at least one.
            n: Number of completions.
            max_new_tokens: Length of each.
            sampling: Temperature, top-k and top-p.
            seed: Seed of torch's global generator, which is restored afterwards.

        Returns:
            The completions.

        Raises:
            InvalidInputError: If a min-p is asked for, which LitGPT lacks.
        """
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            texts = [self.complete(prompt, max_new_tokens, sampling) for _ in range(n)]
        return Completions(tokens=np.array(texts, dtype=np.int64))

    def complete(
        self, prompt: Sequence[int], max_new_tokens: int, sampling: SamplingParams
    ) -> list[int]:
        """One completion, from the global generator."""
        if sampling.min_p:
            raise InvalidInputError("min_p", f"LitGPT has none, got {sampling.min_p}")
        for model in (self._target, self._draft):
            model.set_kv_cache(batch_size=1)
        tokens, _ = self._generate(
            self._draft,
            self._target,
            torch.tensor(list(prompt)),
            len(prompt) + max_new_tokens + 1,
            temperature=sampling.temperature,
            top_k=sampling.top_k,
            top_p=1.0 if sampling.top_p is None else sampling.top_p,
            include_prompt=False,
            speculative_k=self._gamma,
        )
        new: list[int] = tokens[:max_new_tokens].tolist()
        return new

    def smallest(self, vocab_size: int = 2, gamma: int = 1) -> LitGPTEngine:
        """The same on models of a few tokens, to be traced."""
        return LitGPTEngine(gamma=gamma, vocab_size=vocab_size)

    def reference(self) -> TargetLaw:
        """The target's law: its own ``GPT`` in float64, on whole texts without a cache."""
        return ModelLaw(self._exact[0])

    def draft_probs(
        self, prompt: Sequence[int], tokens: NDArray[np.int64], sampling: SamplingParams
    ) -> NDArray[np.float64]:
        """The draft's law along completions, with arguments and shape of ``TargetLaw.probs``."""
        return ModelLaw(self._exact[1]).probs(prompt, tokens, sampling)

    def _pair(self, dtype: torch.dtype) -> tuple[Any, Any]:
        """Target and draft; the draft is the target with noise on every weight."""
        generator = torch.Generator().manual_seed(_SEED)
        target, draft = self._drawn(), self._drawn()
        with torch.no_grad():
            for name, weight in target.named_parameters():
                if weight.ndim > 1:
                    spread = _HEAD if name.startswith("lm_head") else _SPREAD
                    size = 1.0 if "wte" in name else spread * float(weight.shape[1]) ** -0.5
                    weight.copy_(size * torch.randn(weight.shape, generator=generator))
            draft.load_state_dict(target.state_dict())
            for weight in draft.parameters():
                noise = torch.randn(weight.shape, generator=generator)
                weight.add_(_DRAFT_NOISE * weight.abs().mean() * noise)
        return target.to(dtype), draft.to(dtype)

    def _drawn(self) -> Any:
        sizes = {"vocab_size": self._vocab, "padded_vocab_size": self._vocab} | _SIZES
        model = load_module("litgpt.model", "litgpt")
        made = model.GPT(model.Config(name="drawn", **sizes)).eval()
        made.max_seq_length = _SIZES["block_size"]
        return made
