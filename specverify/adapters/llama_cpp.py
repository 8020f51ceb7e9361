"""llama.cpp in this process, through package xllamacpp: draft model, probabilistic, n-gram.

The server inside the wheel is driven by its own completion handler. The reference law is our
float64 evaluation of the weights that the GGUF files were written from, never a probability that
llama.cpp reports: those of speculated tokens are all one.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specverify.adapters.completions_api import completion_request
from specverify.adapters.drafting import draft_law
from specverify.adapters.gguf_files import read_vocabulary, write_gguf
from specverify.adapters.references import TINY, pair_source
from specverify.audit.forms import Completions, EngineInfo, TargetLaw
from specverify.errors import ImplementationRaisedError, InvalidInputError, MissingDependencyError
from specverify.models.gpt import GPTModel
from specverify.models.law import ModelLaw
from specverify.models.pairs import Pair, load_pair
from specverify.warping import SamplingParams

__all__ = ["MODES", "LlamaCppEngine"]

MODES = ("sample-and-match", "probabilistic", "ngram", "plain")
"""How drafts are made: the draft's most probable tokens, samples of it, n-grams, not at all."""

_TOLERANCE = 2e-3
"""Total variation that float32 with tabulated GELU may make from float64."""


class LlamaCppEngine:
    """Completions by llama.cpp's server, in this process.

    Args:
        pair: ``"tiny"``, or what :func:`specverify.models.pairs.load_pair` takes; GPT-2 layout.
        draft: Which draft; the pair's default one by default.
        gamma: Drafted tokens in a pass, at least 1.
        mode: One of :data:`MODES`.
        p_min: Least draft probability at which drafting goes on, in [0, 1).
        port: Port on loopback at which the server listens, too; any free one by default.

    Raises:
        InvalidInputError: If a setting is out of its range, or a model is no GPT-2.
        MissingDependencyError: If xllamacpp or gguf is not installed.
    """

    def __init__(
        self,
        pair: str | Path = "tiny",
        *,
        draft: str | None = None,
        gamma: int = 4,
        mode: str = "sample-and-match",
        p_min: float = 0.0,
        port: int = 0,
    ) -> None:
        if gamma < 1:
            raise InvalidInputError("gamma", f"must be at least 1, got {gamma}")
        if mode not in MODES:
            raise InvalidInputError("mode", f"must be one of {', '.join(MODES)}; got {mode!r}")
        if not 0 <= p_min < 1:
            raise InvalidInputError("p_min", f"must lie in [0, 1), got {p_min}")
        library = _library()
        self._exact: Pair = load_pair(pair_source(pair), draft=draft, dtype="float64")
        self._name, self._gamma, self._mode, self._p_min = str(pair), gamma, mode, p_min
        self._folder = tempfile.TemporaryDirectory(prefix="specverify-gguf-")
        self._server = library.Server(self._params(library, port))

    @property
    def address(self) -> str:
        """Where the server listens; its completions are under ``/v1``."""
        return str(self._server.listening_address)

    def describe(self) -> EngineInfo:
        """Version, pair and mode."""
        drafting = self._mode in ("sample-and-match", "probabilistic")
        return EngineInfo(
            name="llama.cpp server (xllamacpp)",
            version=metadata.version("xllamacpp"),
            randomness="own generator, a seed a request",
            declared="lossless",
            vocab_size=self._exact.target.vocab_size,
            gamma=self._gamma if drafting and not self._p_min else None,
            prefill_emits=True,
            tolerance=_TOLERANCE,
            quick=self._name == TINY,
            details={
                "pair": self._name,
                "mode": self._mode,
                "n_max": self._gamma,
                "p_min": self._p_min,
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
            sampling: Temperature and filters, in this library's order.
            seed: Source of the requests' seeds.

        Returns:
            The completions with what the server counts. It counts no passes: every pass emits its
            accepted drafts and one token more, so that they are tokens less accepted drafts.
        """
        request = completion_request(prompt, max_new_tokens, sampling)
        tokens = np.full((n, max_new_tokens), -1, np.int64)
        counts = np.zeros((n, 2), np.int64)
        seeds = np.random.SeedSequence(seed).generate_state(n, np.uint32)
        for row in range(n):
            answer = self._server.handle_completions(request | {"seed": int(seeds[row])})
            ids, counts[row] = _read(answer)
            tokens[row, : len(ids)] = ids[:max_new_tokens]
        passes = (tokens >= 0).sum(axis=1) - counts[:, 0]
        return Completions(
            tokens=tokens, accepted=counts[:, 0], drafted=counts[:, 1], passes=passes
        )

    def reference(self) -> TargetLaw:
        """The target's law, from our float64 evaluation of the same weights."""
        return ModelLaw(self._exact.target)  # type: ignore[arg-type]

    def draft_probs(
        self, prompt: Sequence[int], tokens: NDArray[np.int64], sampling: SamplingParams
    ) -> NDArray[np.float64] | None:
        """The law that drafts are drawn from, which no sampling setting of a request changes.

        Returns:
            Shape ``(n, length, vocab)``; None for n-grams, and where nothing is drafted.
        """
        if self._mode not in ("sample-and-match", "probabilistic"):
            return None
        drafting = "ten-best" if self._mode == "probabilistic" else "greedy"
        law = ModelLaw(self._exact.draft)  # type: ignore[arg-type]
        return draft_law(law, drafting, (prompt, tokens), sampling)

    def encode(self, text: str) -> list[int]:
        """Ids of a text, to write prompts with.

        Raises:
            InvalidInputError: If the pair came without a tokeniser.
        """
        if self._exact.tokenizer is None:
            raise InvalidInputError("pair", f"{self._exact.name} has no tokeniser")
        return self._exact.tokenizer.encode(text)

    def _params(self, library: Any, port: int) -> Any:
        params = library.CommonParams()
        if port:
            params.port = port
        params.model.path = self._write("target", self._exact.target)
        params.n_ctx, params.n_parallel = self._exact.target.max_length, 1
        params.warmup = False
        params.verbosity = 0
        for cpu in (params.cpuparams, params.cpuparams_batch):
            cpu.n_threads = 1
        speculative, kinds = params.speculative, library.common_speculative_type
        if self._mode == "ngram":
            speculative.types = [kinds.COMMON_SPECULATIVE_TYPE_NGRAM_SIMPLE]
        elif self._mode != "plain":
            speculative.types = [kinds.COMMON_SPECULATIVE_TYPE_DRAFT_SIMPLE]
            self._set_draft(speculative.draft)
        return params

    def _set_draft(self, draft: Any) -> None:
        draft.mparams.path = self._write("draft", self._exact.draft)
        draft.n_max, draft.n_min, draft.p_min = self._gamma, 0, self._p_min
        draft.probabilistic = self._mode == "probabilistic"
        for cpu in (draft.cpuparams, draft.cpuparams_batch):
            cpu.n_threads = 1

    def _write(self, name: str, model: Any) -> str:
        if not isinstance(model, GPTModel):
            raise InvalidInputError("pair", f"its {name} is no GPT-2 that can be written as GGUF")
        path = Path(self._folder.name) / f"{name}.gguf"
        if not path.is_file():
            file = Path(self._exact.target_source).parent / "tokenizer.json"
            write_gguf(model, path, read_vocabulary(file, model.vocab_size))
        return str(path)


def _read(answer: dict[str, Any]) -> tuple[list[int], tuple[int, int]]:
    """Ids, accepted and drafted tokens of one answer."""
    if "choices" not in answer:
        raise ImplementationRaisedError(f"the server answered {answer}")
    content = answer["choices"][0]["logprobs"]["content"]
    timings = answer.get("timings", {})
    ids = [int(token["id"]) for token in content]
    return ids, (int(timings.get("draft_n_accepted", 0)), int(timings.get("draft_n", 0)))


def _library() -> Any:
    try:
        import xllamacpp
    except ImportError as error:
        raise MissingDependencyError("xllamacpp", "llama-cpp") from error
    return xllamacpp
