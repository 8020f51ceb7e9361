"""MLX-LM's speculative decoding, on Apple's machines or with MLX's CPU build on Linux.

The released generator and the released sampler run on MLX's own GPT-2, with the weights of our
pair. A draft is kept where the target's own sample is the same token (sample-and-match). The
reference law is our float64 evaluation of the weights, filtered in MLX-LM's order.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specverify.adapters.filter_orders import OrderedLaw
from specverify.adapters.loading import load_module
from specverify.adapters.pair_engine import PairEngine
from specverify.adapters.references import TINY, pair_source
from specverify.audit.forms import Completions, EngineInfo, TargetLaw
from specverify.errors import InvalidInputError
from specverify.models.gpt import GPTModel
from specverify.models.pairs import load_pair
from specverify.warping import SamplingParams

__all__ = ["MlxLmEngine"]

_ORDER = ("top_p", "min_p", "top_k", "temperature")
_TOLERANCE = 1e-4
"""Total variation that float32 may make from float64; 1.4e-6 was the most seen on the tiny pair."""


class MlxLmEngine(PairEngine):
    """Completions by ``speculative_generate_step``.

    Args:
        pair: ``"tiny"``, or what :func:`specverify.models.pairs.load_pair` takes; GPT-2 layout.
        draft: Which draft; the pair's default one by default.
        gamma: Drafted tokens in a pass, at least 1.

    Raises:
        InvalidInputError: If a setting is out of its range, or a model is no GPT-2.
        MissingDependencyError: If mlx or mlx-lm is not installed.
    """

    def __init__(
        self, pair: str | Path = TINY, *, draft: str | None = None, gamma: int = 2
    ) -> None:
        if gamma < 1:
            raise InvalidInputError("gamma", f"must be at least 1, got {gamma}")
        self._mx = load_module("mlx.core", "mlx-lm")
        self._generate = load_module("mlx_lm.generate", "mlx-lm").speculative_generate_step
        self._make_sampler = load_module("mlx_lm.sample_utils", "mlx-lm").make_sampler
        self._exact = load_pair(pair_source(pair), draft=draft, dtype="float64")
        self._name, self._gamma = str(pair), gamma
        self._models = [self._convert(model) for model in (self._exact.target, self._exact.draft)]

    def describe(self) -> EngineInfo:
        """Version, pair, device and how drafts are verified."""
        return EngineInfo(
            name="MLX-LM",
            version=metadata.version("mlx-lm"),
            randomness="MLX's global key, seeded a call",
            declared="lossless",
            vocab_size=self._exact.target.vocab_size,
            gamma=self._gamma,
            tolerance=_TOLERANCE,
            quick=self._name == TINY,
            details={
                "pair": self._name,
                "mlx": metadata.version("mlx"),
                "device": str(self._mx.default_device()),
                "verification": "sample-and-match, drafts sampled as the target is",
                "filters": "top-p, min-p, top-k, then temperature",
            },
        )

    def sample(
        self,
        prompt: Sequence[int],
        n: int,
        max_new_tokens: int,
        sampling: SamplingParams,
        seed: int,
    ) -> Completions:
        """Generate completions one after the other, all from one seed.

        Args:
            prompt: Ids, at least one.
            n: Number of completions.
            max_new_tokens: Length of each.
            sampling: Temperature and filters.
            seed: Seed of MLX's global key.

        Returns:
            The completions. MLX-LM tells which tokens were drafts, and drafts no more than are
            left to generate.
        """
        self._mx.random.seed(seed)
        sampler = self._sampler(sampling)
        start = self._mx.array([int(token) for token in prompt])
        tokens = np.full((n, max_new_tokens), -1, np.int64)
        drafts = np.zeros((n, max_new_tokens), np.bool_)
        for row in range(n):
            answer = self._generate(
                start,
                *self._models,
                num_draft_tokens=self._gamma,
                max_tokens=max_new_tokens,
                sampler=sampler,
            )
            for place, (token, _, drafted) in enumerate(answer):
                tokens[row, place], drafts[row, place] = token, drafted
        # A pass begins with the text and behind every token that was no draft.
        begins = np.roll(~drafts, 1, axis=1)
        begins[:, 0] = True
        left = np.arange(max_new_tokens, 0, -1)
        return Completions(
            tokens=tokens,
            accepted=drafts.sum(axis=1),
            drafted=(begins * np.minimum(left, self._gamma)).sum(axis=1),
            passes=begins.sum(axis=1),
        )

    def reference(self) -> TargetLaw:
        """The target's law, from our float64 evaluation of the same weights."""
        return OrderedLaw(self._exact.target, _ORDER)

    def draft_probs(
        self, prompt: Sequence[int], tokens: NDArray[np.int64], sampling: SamplingParams
    ) -> NDArray[np.float64]:
        """The draft's law under the request's own settings, shape ``(n, length, vocab)``."""
        return OrderedLaw(self._exact.draft, _ORDER).probs(prompt, tokens, sampling)

    def _sampler(self, sampling: SamplingParams) -> Any:
        # MLX-LM refuses a k that keeps everything; 0 is its name for that.
        top_k = sampling.top_k or 0
        return self._make_sampler(
            temp=sampling.temperature,
            top_p=sampling.top_p or 0.0,
            min_p=sampling.min_p or 0.0,
            top_k=top_k if top_k < self._exact.target.vocab_size else 0,
        )

    def _convert(self, model: Any) -> Any:
        """MLX-LM's GPT-2 with our weights, in float32."""
        if not isinstance(model, GPTModel):
            raise InvalidInputError("pair", "holds a model that is no GPT-2")
        library = load_module("mlx_lm.models.gpt2", "mlx-lm")
        theirs = library.Model(
            library.ModelArgs(
                model_type="gpt2",
                n_ctx=model.max_length,
                n_embd=model.embed_dim,
                n_head=model.num_heads,
                n_layer=model.num_layers,
                n_positions=model.max_length,
                layer_norm_epsilon=model.layer_norm_eps,
                vocab_size=model.vocab_size,
            )
        )
        weights = {
            name: self._mx.array(value.detach().float().numpy())
            for name, value in model.state_dict().items()
        }
        theirs.load_weights(list(theirs.sanitize(weights).items()))
        self._mx.eval(theirs.parameters())
        return theirs
