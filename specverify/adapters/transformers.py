"""Hugging Face transformers: its verification function, and its assisted generation.

Both draw from torch's global generator. The reference law is our own float64 evaluation of the
same weights, never anything that transformers computed.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from specverify.audit.forms import Completions, EngineInfo, TargetLaw
from specverify.errors import InvalidInputError, MissingDependencyError
from specverify.models.law import ModelLaw
from specverify.models.pairs import SHIPPED, Pair, Source, load_pair
from specverify.warping import SamplingParams

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["TransformersEngine", "speculative_sampling"]


def speculative_sampling(
    target_probs: Tensor, draft_probs: Tensor, draft_tokens: Tensor
) -> tuple[Tensor, int]:
    """One block through ``transformers.generation.utils._speculative_sampling``.

    It takes logits: the logarithms of the probabilities are handed over. It draws from torch's
    global generator.

    Args:
        target_probs: Target rows, shape ``(gamma + 1, vocab)``.
        draft_probs: Draft rows, shape ``(gamma, vocab)``.
        draft_tokens: Drafted ids, shape ``(gamma,)``.

    Returns:
        Emitted ids and the number of accepted drafts.

    Raises:
        MissingDependencyError: If transformers is not installed.
    """
    function = _speculative_sampling()
    arguments = {
        "candidate_input_ids": draft_tokens.unsqueeze(0),
        "candidate_logits": draft_probs.log().unsqueeze(0),
        "candidate_length": len(draft_tokens),
        "new_logits": target_probs.log().unsqueeze(0),
    }
    if "is_done_candidate" in inspect.signature(function).parameters:  # before 5.24
        arguments["is_done_candidate"] = False
    emitted, n_accepted = function(**arguments)
    return emitted[0], int(n_accepted)


class TransformersEngine:
    """``generate(assistant_model=..., do_sample=True)`` on a pair.

    Every pass drafts ``gamma`` tokens, fewer only where the completion has no room for more: the
    library's adaptive schedule and confidence threshold are off. There is no end-of-sequence token.

    Args:
        pair: What :func:`specverify.models.pairs.load_pair` takes.
        draft: Which draft; the pair's default one by default.
        gamma: Drafted tokens in a pass, at least 1.
        dtype: Dtype that transformers computes in.

    Raises:
        InvalidInputError: If ``gamma`` is below 1.
        MissingDependencyError: If transformers is not installed.

    Attributes:
        target: The target as transformers loaded it.
        assistant: The draft as transformers loaded it.
    """

    def __init__(
        self,
        pair: Source | tuple[Source, Source] = SHIPPED,
        *,
        draft: Source | None = None,
        gamma: int = 4,
        dtype: str = "float32",
    ) -> None:
        if gamma < 1:
            raise InvalidInputError("gamma", f"must be at least 1, got {gamma}")
        load = _library().AutoModelForCausalLM.from_pretrained
        self._exact: Pair = load_pair(pair, draft=draft, dtype="float64")
        self._gamma, self._dtype = gamma, dtype
        with _quiet():
            self.target = load(str(self._exact.target_source), dtype=dtype).eval()
            self.assistant = load(str(self._exact.draft_source), dtype=dtype).eval()
        settings = self.assistant.generation_config
        settings.num_assistant_tokens = gamma
        settings.num_assistant_tokens_schedule = "constant"
        settings.assistant_confidence_threshold = 0.0
        for model in (self.target, self.assistant):
            model.generation_config.eos_token_id = None
            model.generation_config.pad_token_id = 0

    def describe(self) -> EngineInfo:
        """Version, pair and settings."""
        return EngineInfo(
            name="transformers generate(assistant_model)",
            version=str(_library().__version__),
            randomness="global torch generator",
            declared="lossless",
            vocab_size=self._exact.target.vocab_size,
            gamma=self._gamma,
            details={
                "pair": self._exact.name,
                "draft": getattr(self._exact.draft_source, "name", self._exact.draft_source),
                "dtype": self._dtype,
                "num_assistant_tokens_schedule": "constant",
                "assistant_confidence_threshold": 0.0,
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
        """Generate completions one by one: assisted generation takes no batches.

        Args:
            prompt: Ids, at least one.
            n: Number of completions.
            max_new_tokens: Length of each.
            sampling: Temperature and filters; temperature 0 is greedy search.
            seed: Seed of torch's global generator, which is restored afterwards.

        Returns:
            The completions, with target passes and drafted tokens counted by the models' forward
            calls; the accepted ones are the tokens that the passes themselves did not draw.
        """
        arguments = _arguments(sampling, max_new_tokens)
        ids = torch.tensor([[int(token) for token in prompt]])
        tokens = np.empty((n, max_new_tokens), np.int64)
        counts = np.empty((n, 2), np.int64)
        with (
            _seeded(seed),
            _quiet(),
            _Calls(self.target) as passes,
            _Calls(self.assistant) as drafts,
        ):
            for row in range(n):
                passes.n = drafts.n = 0
                text = self.target.generate(
                    ids,
                    attention_mask=torch.ones_like(ids),
                    assistant_model=self.assistant,
                    **arguments,
                )
                tokens[row] = text[0, ids.shape[1] :].numpy()
                counts[row] = passes.n, drafts.n
        return Completions(
            tokens=tokens,
            accepted=max_new_tokens - counts[:, 0],
            drafted=counts[:, 1],
            passes=counts[:, 0],
        )

    def reference(self) -> TargetLaw:
        """The target's law, from our float64 evaluation of the same weights."""
        return ModelLaw(self._exact.target)  # type: ignore[arg-type]

    def draft_probs(
        self, prompt: Sequence[int], tokens: NDArray[np.int64], sampling: SamplingParams
    ) -> NDArray[np.float64]:
        """The draft's law along completions, with arguments and shape of ``TargetLaw.probs``."""
        law = ModelLaw(self._exact.draft)  # type: ignore[arg-type]
        return law.probs(prompt, tokens, sampling)

    def encode(self, text: str) -> list[int]:
        """Ids of a text, to write prompts with.

        Raises:
            InvalidInputError: If the pair came without a tokeniser.
        """
        if self._exact.tokenizer is None:
            raise InvalidInputError("pair", f"{self._exact.name} has no tokeniser")
        return self._exact.tokenizer.encode(text)


class _Calls:
    """Counts a module's forward calls while it is entered."""

    def __init__(self, module: torch.nn.Module) -> None:
        self._module = module
        self.n = 0

    def __enter__(self) -> _Calls:
        self._hook = self._module.register_forward_pre_hook(self._count)
        return self

    def __exit__(self, *_: object) -> None:
        self._hook.remove()

    def _count(self, *_: object) -> None:
        self.n += 1


def _arguments(sampling: SamplingParams, max_new_tokens: int) -> dict[str, Any]:
    """Every sampling field spelled out: the library's defaults (top-k 50) must not creep in."""
    length = {"max_new_tokens": max_new_tokens, "min_new_tokens": None}
    if sampling.temperature == 0:
        return {**length, "do_sample": False}
    return {
        **length,
        "do_sample": True,
        "temperature": float(sampling.temperature),
        "top_k": sampling.top_k or 0,
        "top_p": 1.0 if sampling.top_p is None else float(sampling.top_p),
        "min_p": sampling.min_p,
    }


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


@contextmanager
def _quiet() -> Iterator[None]:
    """No progress bars and no advice about generation settings while we drive the library."""
    logging = _library().utils.logging
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


def _speculative_sampling() -> Callable[..., Any]:
    _library()
    from transformers.generation import utils

    function: Callable[..., Any] = utils._speculative_sampling
    return function


def _library() -> Any:
    try:
        import transformers
    except ImportError as error:
        raise MissingDependencyError("transformers", "hf") from error
    return transformers


# The library takes seconds to import: that is a part of loading the target, not of its first call.
with suppress(MissingDependencyError):
    _speculative_sampling()
