"""OpenVINO GenAI's pipeline: a draft model, prompt lookup, or neither.

The pipeline reads files that are written from our pair's weights and generates from ids. The
reference law is our float64 evaluation of the same weights. Min-p comes before top-p there, but
what is left is not made to sum to one in between: the law is that of this library's order.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specverify.adapters.loading import load_module
from specverify.adapters.openvino_files import write_openvino
from specverify.adapters.pair_engine import PairEngine
from specverify.adapters.references import TINY, pair_source
from specverify.audit.forms import Completions, EngineInfo
from specverify.errors import InvalidInputError
from specverify.models.gpt import GPTModel
from specverify.models.law import ModelLaw
from specverify.models.pairs import load_pair
from specverify.warping import SamplingParams

__all__ = ["MODES", "OpenVinoGenAIEngine"]

MODES = ("draft", "prompt-lookup", "plain")
"""How drafts are made: by the draft model, from n-grams of the text, not at all."""

_PACKAGE = "openvino-genai"
_TOLERANCE = 1e-4
"""Total variation that float32 may make from float64."""

# The default would keep keys and values in 8 bits.
_EXACT = {
    "INFERENCE_PRECISION_HINT": "f32",
    "KV_CACHE_PRECISION": "f32",
    "INFERENCE_NUM_THREADS": 1,
}
_BLOCKS = 256
_LONGEST_NGRAM = 3


class OpenVinoGenAIEngine(PairEngine):
    """Completions by ``LLMPipeline``, one request each, on the CPU.

    Args:
        pair: ``"tiny"``, or what :func:`specverify.models.pairs.load_pair` takes; GPT-2 layout.
        draft: Which draft; the pair's default one by default.
        gamma: Drafted tokens in a pass (``num_assistant_tokens``), at least 1.
        mode: One of :data:`MODES`.

    Raises:
        InvalidInputError: If a setting is out of its range, or a model is no GPT-2.
        MissingDependencyError: If openvino-genai is not installed.
    """

    def __init__(
        self,
        pair: str | Path = TINY,
        *,
        draft: str | None = None,
        gamma: int = 3,
        mode: str = "draft",
    ) -> None:
        if gamma < 1:
            raise InvalidInputError("gamma", f"must be at least 1, got {gamma}")
        if mode not in MODES:
            raise InvalidInputError("mode", f"must be one of {', '.join(MODES)}; got {mode!r}")
        self._library = load_module("openvino_genai", _PACKAGE)
        self._tensor = load_module("openvino", _PACKAGE).Tensor
        self._exact = load_pair(pair_source(pair), draft=draft, dtype="float64")
        self._name, self._gamma, self._mode = str(pair), gamma, mode
        with tempfile.TemporaryDirectory(prefix="specverify-openvino-") as folder:
            self._pipeline = self._load(Path(folder))

    def describe(self) -> EngineInfo:
        """Version, pair and mode."""
        return EngineInfo(
            name="OpenVINO GenAI",
            version=metadata.version(_PACKAGE),
            randomness="own generator, a seed a request",
            declared="lossless",
            vocab_size=self._exact.target.vocab_size,
            gamma=self._gamma if self._mode == "draft" else None,
            prefill_emits=True,
            tolerance=_TOLERANCE,
            quick=self._name == TINY,
            details={
                "pair": self._name,
                "mode": self._mode,
                "openvino": metadata.version("openvino"),
                "backend": "continuous batching on the CPU, no prefix caching",
                "precision": "float32, keys and values too",
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
        """Generate completions one after the other, each under a seed of its own.

        Args:
            prompt: Ids, at least one.
            n: Number of completions.
            max_new_tokens: Length of each.
            sampling: Temperature and filters.
            seed: Source of the requests' seeds.

        Returns:
            The completions, and the target's passes: the pipeline notes what each emitted.
        """
        request = self._request(max_new_tokens, sampling)
        start = self._tensor(np.array([list(prompt)], np.int64))
        tokens = np.full((n, max_new_tokens), -1, np.int64)
        passes = np.zeros(n, np.int64)
        seeds = np.random.SeedSequence(seed).generate_state(n, np.uint32)
        for row in range(n):
            request.rng_seed = int(seeds[row])
            answer = self._pipeline.generate(start, request)
            ids = answer.tokens[0]
            tokens[row, : len(ids)] = ids
            passes[row] = len(answer.perf_metrics.raw_metrics.m_batch_sizes)
        return Completions(tokens=tokens, passes=passes)

    def draft_probs(
        self, prompt: Sequence[int], tokens: NDArray[np.int64], sampling: SamplingParams
    ) -> NDArray[np.float64] | None:
        """The draft's law under the request's own settings.

        Returns:
            Shape ``(n, length, vocab)``; None for prompt lookup, and where nothing is drafted.
        """
        if self._mode != "draft":
            return None
        law = ModelLaw(self._exact.draft)  # type: ignore[arg-type]
        return law.probs(prompt, tokens, sampling)

    def _load(self, folder: Path) -> Any:
        scheduler = self._library.SchedulerConfig()
        scheduler.num_kv_blocks, scheduler.enable_prefix_caching = _BLOCKS, False
        settings: dict[str, Any] = {"scheduler_config": scheduler, **_EXACT}
        if self._mode == "draft":
            place = self._write(folder / "draft", self._exact.draft)
            settings["draft_model"] = self._library.draft_model(place, "CPU", **_EXACT)
        elif self._mode == "prompt-lookup":
            settings["prompt_lookup"] = True
        place = self._write(folder / "target", self._exact.target)
        return self._library.LLMPipeline(place, "CPU", **settings)

    def _write(self, place: Path, model: Any) -> str:
        if not isinstance(model, GPTModel):
            raise InvalidInputError("pair", "holds a model that is no GPT-2")
        write_openvino(model, place)
        return str(place)

    def _request(self, max_new_tokens: int, sampling: SamplingParams) -> Any:
        request = self._library.GenerationConfig()
        request.max_new_tokens, request.ignore_eos = max_new_tokens, True
        # An end has to be named; this id is beyond the vocabulary.
        request.set_eos_token_id(self._exact.target.vocab_size)
        if self._mode != "plain":
            request.num_assistant_tokens = self._gamma
        if self._mode == "prompt-lookup":
            request.max_ngram_size = _LONGEST_NGRAM
        if sampling.temperature == 0:
            return request
        request.do_sample, request.temperature = True, sampling.temperature
        for name in ("top_k", "top_p", "min_p"):
            if getattr(sampling, name) is not None:
                setattr(request, name, getattr(sampling, name))
        return request
