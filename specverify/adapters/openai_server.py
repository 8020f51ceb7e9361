"""Any OpenAI-compatible completion server, against a model whose law we evaluate ourselves.

The law never comes from the server: probabilities that a speculating server reports are not the
ones it samples from.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specverify.adapters.completions_api import (
    completion_request,
    counts_of,
    spaced_seeds,
    token_ids,
)
from specverify.adapters.drafting import DRAFTING, draft_law
from specverify.adapters.openai_client import CompletionClient
from specverify.adapters.references import load_reference
from specverify.audit.forms import Completions, EngineInfo, TargetLaw
from specverify.errors import InvalidEmissionError, InvalidInputError
from specverify.models.law import ModelLaw
from specverify.models.pairs import Pair
from specverify.warping import SamplingParams

__all__ = ["OpenAIServer"]


class OpenAIServer:
    """Completions of a server.

    Args:
        url: Base address, such as ``http://127.0.0.1:8080/v1``.
        reference: The target: ``tiny``, ``shipped``, a directory of a pair, or a model directory or
            hub id, loaded here in float64; or the address of a server that runs the same target
            without speculation, with which samples are then compared.
        model: Name to ask for; the first that the server lists by default.
        per_request: Choices of one request. More are faster; servers count accepted drafts only
            for one.
        vocab_size: Number of ids, where the reference is a server.
        gamma: Drafted tokens in a pass, where known: with a pair as reference, acceptance is then
            predicted.
        drafting: One of :data:`specverify.adapters.drafting.DRAFTING`: how the server drafts.
        prefill_emits: Whether the first token comes from the prompt's pass, without drafts.
        tolerance: Total variation that the server's arithmetic may make from float64; of no meaning
            where the reference is a server.
        quick: Whether completions cost a few milliseconds, so that every setting is sampled until
            the audit's own bound is reached.
        concurrency: Requests in flight at once.
        timeout: Seconds that one attempt may take.
        patience: Seconds of failures after which the audit stops; the same command resumes it.

    Raises:
        InvalidInputError: If a setting is out of its range.
        UnknownTargetError: If the reference cannot be found, or no server answers.
        MissingDependencyError: If httpx is not installed.
    """

    def __init__(
        self,
        url: str,
        *,
        reference: str | None = None,
        model: str | None = None,
        per_request: int = 1,
        vocab_size: int | None = None,
        gamma: int | None = None,
        drafting: str = "as-target",
        prefill_emits: bool = True,
        tolerance: float = 2e-3,
        quick: bool = False,
        concurrency: int = 4,
        timeout: float = 60.0,
        patience: float = 60.0,
    ) -> None:
        for name, value in (("per_request", per_request), ("gamma", gamma)):
            if value is not None and value < 1:
                raise InvalidInputError(name, f"must be at least 1, got {value}")
        if drafting not in DRAFTING:
            known = ", ".join(DRAFTING)
            raise InvalidInputError("drafting", f"must be one of {known}; got {drafting!r}")
        if reference is None:
            raise InvalidInputError(
                "reference", "names the model that the server runs (--reference MODEL)"
            )
        limits = {"concurrency": concurrency, "timeout": timeout, "patience": patience}
        self._client = CompletionClient(url, **limits)  # type: ignore[arg-type]
        self._plain, self._known = None, None
        if reference.startswith(("http://", "https://")):
            self._plain = CompletionClient(reference, **limits)  # type: ignore[arg-type]
        else:
            self._known = load_reference(reference)
        self._vocab = vocab_size if self._known is None else self._known.target.vocab_size
        self._per_request, self._drafting = per_request, drafting
        self._settings = {"per_request": per_request, "drafting": drafting, "reference": reference}
        self._gamma = gamma
        # Two servers of one engine compute alike; exact laws they follow up to their rounding.
        self._tolerance = 0.0 if self._known is None else tolerance
        self._prefill_emits, self._quick = prefill_emits, bool(quick)
        for client in filter(None, (self._client, self._plain)):
            client.reach()
        self._model = model or self._first_model()

    def describe(self) -> EngineInfo:
        """What the server says of itself, and how it is asked."""
        props = self._client.get(_root(self._client.url) + "/props") or {}
        version = self._client.get(_root(self._client.url) + "/version") or {}
        return EngineInfo(
            name="OpenAI-compatible server",
            version=str(version.get("version") or props.get("build_info") or "unknown"),
            randomness="the server's own, a seed a request",
            declared="lossless",
            vocab_size=self._vocab,
            gamma=self._gamma if self._pair() is not None else None,
            prefill_emits=self._prefill_emits,
            tolerance=self._tolerance,
            quick=self._quick,
            details=self._settings | {"url": self._client.url, "model": _told(self._model)},
        )

    def sample(
        self,
        prompt: Sequence[int],
        n: int,
        max_new_tokens: int,
        sampling: SamplingParams,
        seed: int,
    ) -> Completions:
        """Draw completions, ``per_request`` of them a request, requests under spaced seeds.

        Raises:
            ImplementationRaisedError: If the server refuses, or fails for longer than the patience.
            InvalidEmissionError: If an answer is not what was asked for.
        """
        return self._sample(self._client, (prompt, n, max_new_tokens, sampling), seed)

    def sample_plain(
        self,
        prompt: Sequence[int],
        n: int,
        max_new_tokens: int,
        sampling: SamplingParams,
        seed: int,
    ) -> Completions:
        """The same from the reference server, which does not speculate.

        Raises:
            InvalidInputError: If the reference is no server.
        """
        if self._plain is None:
            raise InvalidInputError("reference", "is no server")
        return self._sample(self._plain, (prompt, n, max_new_tokens, sampling), seed)

    def _sample(
        self,
        client: CompletionClient,
        wanted: tuple[Sequence[int], int, int, SamplingParams],
        seed: int,
    ) -> Completions:
        prompt, n, max_new_tokens, sampling = wanted
        asked = self._counts(n)
        seeds = spaced_seeds(seed, len(asked), self._per_request)
        body = self._request(prompt, max_new_tokens, sampling)
        answers = client.complete(
            [body | {"n": count, "seed": s} for count, s in zip(asked, seeds, strict=True)]
        )
        tokens = np.full((n, max_new_tokens), -1, np.int64)
        row = 0
        for count, answer in zip(asked, answers, strict=True):
            for ids in _choices(answer, count, max_new_tokens):
                tokens[row, : len(ids)] = ids
                row += 1
        return _completions(tokens, [counts_of(answer) for answer in answers])

    def reference(self) -> TargetLaw | None:
        """The target's law, from our float64 evaluation of the reference; None for a server."""
        return None if self._known is None else ModelLaw(self._known.target)

    def draft_probs(
        self, prompt: Sequence[int], tokens: NDArray[np.int64], sampling: SamplingParams
    ) -> NDArray[np.float64] | None:
        """The draft's law along completions; None where the reference is no pair."""
        pair = self._pair()
        if pair is None:
            return None
        law = ModelLaw(pair.draft)  # type: ignore[arg-type]
        return draft_law(law, self._drafting, (prompt, tokens), sampling)

    def encode(self, text: str) -> list[int]:
        """Ids of a text, to write prompts with.

        Raises:
            InvalidInputError: If the reference came without a tokeniser.
        """
        if self._known is None:
            raise InvalidInputError("reference", "is a server: its tokeniser is not known")
        return self._known.encode(text)

    def close(self) -> None:
        """Close the connections."""
        for client in (self._client, self._plain):
            if client is not None:
                client.close()

    def _pair(self) -> Pair | None:
        return None if self._known is None else self._known.pair

    def _request(
        self, prompt: Sequence[int], max_new_tokens: int, sampling: SamplingParams
    ) -> dict[str, Any]:
        """A request that asks for ids in each server's own words."""
        asked = {"model": self._model, "return_token_ids": True, "return_tokens": True}
        fields = {"repetition_penalty": 1.0, "ignore_eos": False, "stream": False}
        return completion_request(prompt, max_new_tokens, sampling) | asked | fields

    def _counts(self, n: int) -> list[int]:
        size = self._per_request
        return [min(size, n - start) for start in range(0, n, size)]

    def _first_model(self) -> str:
        listed = (self._client.get(f"{self._client.url}/models") or {}).get("data") or [{}]
        return str(listed[0].get("id", "default"))


def _told(model: str) -> str:
    """The name of a model without the folders of the server's machine."""
    return PurePath(model).name if PurePath(model).is_absolute() else model


def _root(url: str) -> str:
    return url.removesuffix("/v1")


def _choices(answer: dict[str, Any], count: int, max_new_tokens: int) -> list[list[int]]:
    found = sorted(answer["choices"], key=lambda choice: choice.get("index", 0))
    if len(found) != count:
        raise InvalidEmissionError(f"asked for {count} choices, got {len(found)}")
    ids = [token_ids(choice) for choice in found]
    for row in ids:
        if len(row) > max_new_tokens:
            raise InvalidEmissionError(f"asked for {max_new_tokens} tokens, got {len(row)}")
    return ids


def _completions(tokens: NDArray[np.int64], counts: list[tuple[int, int] | None]) -> Completions:
    if len(counts) != len(tokens) or any(pair is None for pair in counts):
        return Completions(tokens=tokens)
    accepted, drafted = np.array([pair for pair in counts if pair is not None], dtype=np.int64).T
    passes = (tokens >= 0).sum(axis=1) - accepted
    return Completions(tokens=tokens, accepted=accepted, drafted=drafted, passes=passes)
