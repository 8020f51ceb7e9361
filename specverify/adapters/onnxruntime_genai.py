"""ONNX Runtime GenAI in this process: speculation with a draft model, with n-grams, or none.

The reference law is our float64 evaluation of the weights that the ONNX files were written from.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specverify.adapters.onnx_files import write_folder
from specverify.adapters.pair_engine import PairEngine
from specverify.adapters.references import TINY, pair_source
from specverify.audit.forms import Completions, EngineInfo
from specverify.errors import InvalidInputError, MissingDependencyError
from specverify.models.gpt import GPTModel
from specverify.models.law import ModelLaw
from specverify.models.pairs import load_pair
from specverify.warping import SamplingParams

__all__ = ["MODES", "OnnxRuntimeGenAI"]

MODES = ("draft", "ngram", "plain")
"""How drafts are made: by the draft model, by n-grams of the text, not at all."""

_PACKAGE = "onnxruntime-genai"
_MOST_DRAFTS = 16
_NGRAM = 2
_TOLERANCE = 1e-4
"""Total variation that float32 may make from float64 on these weights."""


class OnnxRuntimeGenAI(PairEngine):
    """Completions by ONNX Runtime GenAI's generator, one at a time.

    Args:
        pair: ``"tiny"``, or what :func:`specverify.models.pairs.load_pair` takes; GPT-2 layout.
        draft: Which draft; the pair's default one by default.
        gamma: Most drafted tokens in a pass, 1 to 16.
        mode: One of :data:`MODES`.

    Raises:
        InvalidInputError: If a setting is out of its range, or a model is no GPT-2.
        MissingDependencyError: If onnxruntime-genai or onnx is not installed.
    """

    def __init__(
        self,
        pair: str | Path = "tiny",
        *,
        draft: str | None = None,
        gamma: int = 3,
        mode: str = "draft",
    ) -> None:
        if not 1 <= gamma <= _MOST_DRAFTS:
            raise InvalidInputError("gamma", f"must be 1 to {_MOST_DRAFTS}, got {gamma}")
        if mode not in MODES:
            raise InvalidInputError("mode", f"must be one of {', '.join(MODES)}; got {mode!r}")
        self._library = _library()
        self._exact = load_pair(pair_source(pair), draft=draft, dtype="float64")
        self._name, self._gamma, self._mode = str(pair), gamma, mode
        self._model = self._load()

    def describe(self) -> EngineInfo:
        """Version, pair and mode."""
        return EngineInfo(
            name="ONNX Runtime GenAI",
            version=metadata.version(_PACKAGE),
            randomness="own generator, a seed a generator",
            declared="lossless",
            vocab_size=self._exact.target.vocab_size,
            gamma=self._gamma if self._mode == "draft" else None,
            tolerance=_TOLERANCE,
            quick=self._name == TINY,
            details={"pair": self._name, "mode": self._mode, "max_draft_tokens": self._gamma},
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
            sampling: Temperature, top-k and top-p; temperature 0 is greedy search.
            seed: Source of the generators' seeds.

        Returns:
            The completions with what the runtime counts; it counts nothing without speculation.

        Raises:
            InvalidInputError: If a min-p is asked for, which the runtime lacks.
        """
        options = self._search_options(sampling) | {"max_length": len(prompt) + max_new_tokens}
        tokens = np.full((n, max_new_tokens), -1, np.int64)
        counts = np.zeros((n, 3), np.int64)
        seeds = np.random.SeedSequence(seed).generate_state(n, np.uint32) >> 1
        for row in range(n):
            new, counts[row] = self._complete(prompt, options | {"random_seed": int(seeds[row])})
            tokens[row, : len(new)] = new
        if self._mode == "plain":
            return Completions(tokens=tokens)
        passes, drafted, accepted = counts.T
        return Completions(tokens=tokens, passes=passes, drafted=drafted, accepted=accepted)

    def draft_probs(
        self, prompt: Sequence[int], tokens: NDArray[np.int64], sampling: SamplingParams
    ) -> NDArray[np.float64] | None:
        """The draft's law along completions; None for n-grams, and where nothing is drafted."""
        if self._mode != "draft":
            return None
        law = ModelLaw(self._exact.draft)  # type: ignore[arg-type]
        return law.probs(prompt, tokens, sampling)

    def _load(self) -> Any:
        target, draft = self._exact.target, self._exact.draft
        for name, model in (("target", target), ("draft", draft)):
            if not isinstance(model, GPTModel):
                raise InvalidInputError("pair", f"its {name} is no GPT-2 that can be written")
        assert isinstance(target, GPTModel)
        assert isinstance(draft, GPTModel)
        with tempfile.TemporaryDirectory(prefix="specverify-onnx-") as folder:
            write_folder(Path(folder), target, draft if self._mode == "draft" else None)
            return self._library.Model(folder)

    def _search_options(self, sampling: SamplingParams) -> dict[str, Any]:
        if sampling.min_p:
            raise InvalidInputError("min_p", f"{_PACKAGE} has none, got {sampling.min_p}")
        if sampling.temperature == 0:
            return {"do_sample": False}
        everything = self._exact.target.vocab_size + 1  # with the token that ends a text
        return {
            "do_sample": True,
            "temperature": float(sampling.temperature),
            "top_k": min(sampling.top_k or everything, everything),
            "top_p": 1.0 if sampling.top_p is None else float(sampling.top_p),
        }

    def _complete(
        self, prompt: Sequence[int], options: dict[str, Any]
    ) -> tuple[list[int], tuple[int, int, int]]:
        """New ids; passes, drafted and accepted tokens."""
        params = self._library.GeneratorParams(self._model)
        params.set_search_options(**options)
        if self._mode != "plain":
            ngram = {"ngram_size": _NGRAM} if self._mode == "ngram" else {}
            params.set_speculative_options(max_draft_tokens=self._gamma, **ngram)
        generator = self._library.Generator(self._model, params)
        generator.append_tokens(np.array(prompt, np.int32))
        while not generator.is_done():
            generator.generate_next_token()
        new = [int(token) for token in generator.get_sequence(0)[len(prompt) :]]
        told = generator.get_speculative_stats() if self._mode != "plain" else {}
        names = ("draft_tokens_proposed", "draft_tokens_accepted")
        drafted, accepted = (int(told.get(name, 0)) for name in names)
        # Where there was nothing to draft, a token is decoded without a round.
        passes = sum(int(told.get(name, 0)) for name in ("rounds", "standard_fallback_steps"))
        return new, (passes, drafted, accepted)


def _library() -> Any:
    try:
        import onnxruntime_genai
    except ImportError as error:
        raise MissingDependencyError(_PACKAGE, _PACKAGE) from error
    return onnxruntime_genai
