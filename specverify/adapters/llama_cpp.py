"""llama.cpp in this process, through package xllamacpp: draft model, probabilistic, n-gram.

The reference law is our float64 evaluation of the weights that the GGUF files were written from,
never a probability that llama.cpp reports: those of speculated tokens are all one.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specverify.adapters import llama_faults
from specverify.adapters.completions_api import completion_request
from specverify.adapters.drafting import draft_law
from specverify.adapters.gguf_files import read_vocabulary, write_gguf
from specverify.adapters.llama_process import DRAFT_MODES, NGRAM_MODES, Launch, LlamaProcess
from specverify.adapters.llama_rows import check_drafting, in_rows, side_by_side
from specverify.adapters.pair_engine import PairEngine
from specverify.adapters.references import TINY, pair_source
from specverify.audit.forms import Completions, EngineInfo
from specverify.errors import InvalidInputError
from specverify.models.gpt import GPTModel
from specverify.models.law import ModelLaw
from specverify.models.pairs import load_pair
from specverify.warping import SamplingParams

__all__ = ["LlamaCppEngine"]

_TOLERANCE = 2e-3
"""Total variation that float32 with tabulated GELU may make from float64."""

_PROMPT_SIZES = (1, 3, 8, 32)


class LlamaCppEngine(PairEngine):
    """Completions by llama.cpp's server, in this process.

    Args:
        pair: ``"tiny"``, or what :func:`specverify.models.pairs.load_pair` takes; GPT-2 layout.
        draft: Which draft; the pair's default one by default.
        gamma: Drafted tokens in a pass, at least 1.
        mode: One of :data:`specverify.adapters.llama_process.MODES`.
        p_min: Least draft probability at which drafting goes on, in [0, 1).
        match: Tokens that a repeat has in common with the end of the text, for n-grams.
        slots: Completions that are decoded side by side, 1 to 64.
        eos: Id that ends a completion; none by default.
        port: Port on loopback at which the server listens, too; any free one by default.
        wrong: One of :data:`specverify.adapters.llama_faults.FAULTS`: a deliberately wrong setting.

    Raises:
        InvalidInputError: If a setting is out of its range, a model is no GPT-2, or llama.cpp
            refuses the draft.
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
        match: int = 1,
        slots: int = 1,
        eos: int | None = None,
        port: int = 0,
        wrong: str | None = None,
    ) -> None:
        check_drafting(gamma, mode, slots)
        if not 0 <= p_min < 1:
            raise InvalidInputError("p_min", f"must lie in [0, 1), got {p_min}")
        if wrong is not None and wrong not in llama_faults.FAULTS:
            known = ", ".join(llama_faults.FAULTS)
            raise InvalidInputError("wrong", f"must be one of {known}; got {wrong!r}")
        self._exact = load_pair(pair_source(pair), draft=draft, dtype="float64")
        size = self._exact.target.vocab_size
        if eos is not None and not 0 <= eos < size:
            raise InvalidInputError("eos", f"must be an id below {size}, got {eos}")
        self._name, self._mode, self._eos, self._wrong = str(pair), mode, eos, wrong
        self._folder = tempfile.TemporaryDirectory(prefix="specverify-gguf-")
        started = llama_faults.launched_mode(wrong, mode)
        launch = Launch(
            target=self._write("target", self._exact.target),
            draft=self._write("draft", self._exact.draft) if started in DRAFT_MODES else None,
            mode=started,
            context=self._exact.target.max_length,
            gamma=gamma,
            p_min=p_min,
            match=match,
            slots=slots,
            port=port,
        )
        self._process = LlamaProcess(launch)

    @property
    def address(self) -> str:
        """Where the server listens; its completions are under ``/v1``."""
        return self._process.address

    def describe(self) -> EngineInfo:
        """Version, pair and mode."""
        launch = self._process.launch
        known = self._mode in DRAFT_MODES and not launch.p_min and self._eos is None
        details = {"pair": self._name, "mode": self._mode, "n_max": launch.gamma}
        details |= {"p_min": launch.p_min, "match": launch.match, "slots": launch.slots}
        return EngineInfo(
            name="llama.cpp server (xllamacpp)",
            version=metadata.version("xllamacpp"),
            randomness="own generator, a seed a request",
            declared="lossless",
            vocab_size=self._exact.target.vocab_size,
            gamma=launch.gamma if known else None,
            prefill_emits=True,
            tolerance=_TOLERANCE,
            quick=self._name == TINY,
            eos=self._eos,
            details=details | {"eos": self._eos, "wrong": self._wrong},
        )

    def prompts(self) -> list[list[int]] | None:
        """Short ones and a long one, of drawn ids; for n-grams, ones that repeat themselves.

        Returns:
            None where texts can be encoded.
        """
        if self._exact.tokenizer is not None:
            return None
        size, rng = self._exact.target.vocab_size, np.random.default_rng(0)
        longest = self._exact.target.max_length // 2
        drawn = [rng.integers(size, size=min(n, longest)).tolist() for n in _PROMPT_SIZES]
        if self._mode not in NGRAM_MODES:
            return drawn
        return [(prompt * longest)[: max(longest // 2, len(prompt))] for prompt in drawn[:-1]]

    def sample(
        self,
        prompt: Sequence[int],
        n: int,
        max_new_tokens: int,
        sampling: SamplingParams,
        seed: int,
    ) -> Completions:
        """Generate completions, as many side by side as there are slots, each under its own seed.

        Args:
            prompt: Ids, at least one.
            n: Number of completions.
            max_new_tokens: Length of each.
            sampling: Temperature and filters, in this library's order.
            seed: Source of the requests' seeds.

        Returns:
            The completions with what the server counts. It counts no passes: every pass emits its
            accepted drafts and one token more, so that they are tokens less accepted drafts.

        Raises:
            InvalidEmissionError: If a completion is short though nothing ended it.
        """
        sent = llama_faults.sent_settings(self._wrong, sampling)
        request = completion_request(prompt, max_new_tokens, sent)
        answers = side_by_side(self._process, request, n, seed)
        found = in_rows(answers, max_new_tokens, counted=self._mode != "plain")
        # Drafts that were accepted behind an end are counted too: passes cannot be told then.
        return found if self._eos is None else replace(found, passes=None)

    def draft_probs(
        self, prompt: Sequence[int], tokens: NDArray[np.int64], sampling: SamplingParams
    ) -> NDArray[np.float64] | None:
        """The law that drafts are drawn from: of a request's settings only temperature counts.

        Returns:
            Shape ``(n, length, vocab)``; None for n-grams, and where nothing is drafted.
        """
        if self._mode not in DRAFT_MODES:
            return None
        drafting = "ten-best" if self._mode == "probabilistic" else "greedy"
        law = ModelLaw(self._exact.draft)  # type: ignore[arg-type]
        return draft_law(law, drafting, (prompt, tokens), sampling)

    def _write(self, name: str, model: Any) -> str:
        if not isinstance(model, GPTModel):
            raise InvalidInputError("pair", f"its {name} is no GPT-2 that can be written as GGUF")
        path = Path(self._folder.name) / f"{name}.gguf"
        tokens = Path(self._exact.target_source).parent / "tokenizer.json"
        vocabulary = read_vocabulary(tokens, model.vocab_size)
        if name == "draft":
            model = llama_faults.with_other_rows(self._wrong, model)
            vocabulary = llama_faults.with_other_words(self._wrong, vocabulary)
        write_gguf(model, path, vocabulary, eos=self._eos)
        return str(path)
