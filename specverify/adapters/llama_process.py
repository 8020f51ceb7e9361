"""llama.cpp's own server inside this process (package xllamacpp): started, and asked on loopback.

Its native completion endpoint is asked, and not the handler of the wheel: alone it counts the
drafts of every completion of a request, and says why each one ended.
"""

from __future__ import annotations

import http.client
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from specverify.errors import ImplementationRaisedError, InvalidInputError, MissingDependencyError

__all__ = ["DRAFT_MODES", "MODES", "NGRAM_MODES", "Answer", "Launch", "LlamaProcess"]

DRAFT_MODES = ("sample-and-match", "probabilistic")
NGRAM_MODES = ("ngram", "ngram-map", "ngram-mod")
MODES = (*DRAFT_MODES, *NGRAM_MODES, "plain")
"""How drafts are made: the draft's most probable tokens, samples of it, repeats of what the text
holds already (three ways to remember it), not at all."""

_KINDS = {
    "ngram": ("NGRAM_SIMPLE", "ngram_simple"),
    "ngram-map": ("NGRAM_MAP_K", "ngram_map_k"),
    "ngram-mod": ("NGRAM_MOD", "ngram_mod"),
}
_FIELDS = ("tokens", "stop_type", "timings/draft_n", "timings/draft_n_accepted")
_ERRORS_ONLY = 1
_ERROR_MARK = " E "
_TIMEOUT = 120.0


@dataclass(frozen=True, kw_only=True)
class Launch:
    """How the server is started.

    Attributes:
        target: File of the target, GGUF.
        mode: One of :data:`MODES`.
        context: Longest text of prompt and completion.
        draft: File of the draft; needed by the modes of :data:`DRAFT_MODES`.
        gamma: Drafted tokens in a pass.
        p_min: Least draft probability at which drafting goes on.
        match: Tokens that a repeat has in common with the end of the text, for n-grams.
        slots: Completions that are decoded side by side.
        port: Port on loopback; any free one for 0.
    """

    target: str
    mode: str
    context: int
    draft: str | None = None
    gamma: int = 4
    p_min: float = 0.0
    match: int = 1
    slots: int = 1
    port: int = 0


@dataclass(frozen=True)
class Answer:
    """One completion.

    Attributes:
        tokens: Its ids.
        accepted: Accepted drafts.
        drafted: Drafted tokens.
        ended: Whether the model ended it, and not the length that was asked for.
    """

    tokens: list[int]
    accepted: int
    drafted: int
    ended: bool


class LlamaProcess:
    """A server that runs until it is garbage.

    Args:
        launch: How to start it.

    Raises:
        MissingDependencyError: If xllamacpp is not installed.
        InvalidInputError: If the server runs without the speculation that it was asked for, as it
            does where the draft's vocabulary is not the target's.
        ImplementationRaisedError: If it does not start.
    """

    def __init__(self, launch: Launch) -> None:
        library = _library()
        self.launch = launch
        with _standard_error() as said:
            try:
                self._server = library.Server(_params(library, launch))
            except RuntimeError as error:
                raise ImplementationRaisedError(f"llama.cpp did not start: {error}") from error
            self.address = str(self._server.listening_address)
            self._connection = http.client.HTTPConnection(
                self.address.removeprefix("http://"), timeout=_TIMEOUT
            )
            slot = self.ask("/slots")[0]
        if launch.mode != "plain" and not slot["speculative"]:
            told = "; ".join(said) or "it does not say why"
            raise InvalidInputError("draft", f"llama.cpp started without speculation: {told}")

    def complete(self, request: Mapping[str, Any], n: int) -> list[Answer]:
        """Draw completions side by side: the first under the request's seed, others under the next.

        Args:
            request: Fields of a request, ``seed`` among them.
            n: Number of completions, at most the number of slots.

        Raises:
            ImplementationRaisedError: If the server refuses.
        """
        more = {"n_cmpl": n, "return_tokens": True, "n_probs": 0, "response_fields": _FIELDS}
        found = self.ask("/completion", {**request, **more})
        answers = found if isinstance(found, list) else [found]
        return [_read(answer) for answer in answers]

    def ask(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """JSON of an address of the server, posted to where there is a body.

        Raises:
            ImplementationRaisedError: If the server does not answer, or refuses.
        """
        try:
            status, said = self._send(path, body)
        except (OSError, http.client.HTTPException):
            self._connection.close()  # the server closes idle ones: once more on a new one
            status, said = self._send_again(path, body)
        if status != 200:
            raise ImplementationRaisedError(f"the server answered {status}: {said[:300]!r}")
        return json.loads(said)

    def _send(self, path: str, body: Mapping[str, Any] | None) -> tuple[int, bytes]:
        text = None if body is None else json.dumps(body)
        headers = {} if body is None else {"Content-Type": "application/json"}
        self._connection.request("GET" if body is None else "POST", path, text, headers)
        reply = self._connection.getresponse()
        return reply.status, reply.read()

    def _send_again(self, path: str, body: Mapping[str, Any] | None) -> tuple[int, bytes]:
        try:
            return self._send(path, body)
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            raise ImplementationRaisedError(f"the server does not answer: {error}") from error


def _read(answer: Mapping[str, Any]) -> Answer:
    return Answer(
        tokens=[int(token) for token in answer["tokens"]],
        accepted=int(answer.get("timings/draft_n_accepted", 0)),
        drafted=int(answer.get("timings/draft_n", 0)),
        ended=answer["stop_type"] == "eos",
    )


def _params(library: Any, launch: Launch) -> Any:
    params = library.CommonParams()
    params.port = launch.port or params.port
    params.model.path = launch.target
    params.n_ctx, params.n_parallel = launch.context * launch.slots, launch.slots
    params.warmup = False
    params.verbosity = _ERRORS_ONLY
    _use_one_thread(params)
    speculative, kinds = params.speculative, library.common_speculative_type
    if launch.mode in DRAFT_MODES:
        speculative.types = [kinds.COMMON_SPECULATIVE_TYPE_DRAFT_SIMPLE]
        _set_draft(speculative.draft, launch)
    elif launch.mode in NGRAM_MODES:
        kind, field = _KINDS[launch.mode]
        speculative.types = [getattr(kinds, f"COMMON_SPECULATIVE_TYPE_{kind}")]
        _set_ngram(getattr(speculative, field), launch)
    return params


def _set_draft(draft: Any, launch: Launch) -> None:
    draft.mparams.path = launch.draft
    draft.n_max, draft.n_min, draft.p_min = launch.gamma, 0, launch.p_min
    draft.probabilistic = launch.mode == "probabilistic"
    _use_one_thread(draft)


def _set_ngram(ngram: Any, launch: Launch) -> None:
    # By default a repeat is looked for with the last 12 or 24 tokens: short texts have none.
    if launch.mode == "ngram-mod":
        ngram.n_match, ngram.n_min, ngram.n_max = launch.match, 1, launch.gamma
    else:
        ngram.size_n, ngram.size_m, ngram.min_hits = launch.match, launch.gamma, 1


def _use_one_thread(params: Any) -> None:
    for cpu in (params.cpuparams, params.cpuparams_batch):
        cpu.n_threads = 1


@contextmanager
def _standard_error() -> Iterator[list[str]]:
    """Keep what is written to standard error meanwhile; the errors among it are in the list."""
    said: list[str] = []
    sys.stderr.flush()
    kept = os.dup(2)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 2)
        try:
            yield said
        finally:
            os.dup2(kept, 2)
            os.close(kept)
            said += _errors(file)


def _errors(file: Any) -> Sequence[str]:
    file.seek(0)
    lines = file.read().decode(errors="replace").splitlines()
    return [line.partition(_ERROR_MARK)[2].strip() for line in lines if _ERROR_MARK in line]


def _library() -> Any:
    try:
        import xllamacpp
    except ImportError as error:
        raise MissingDependencyError("xllamacpp", "llama-cpp") from error
    return xllamacpp
