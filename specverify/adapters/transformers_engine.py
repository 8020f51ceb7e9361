"""Assisted generation of Hugging Face transformers, in every way that it drafts.

It draws from torch's global generator. The reference law is our own float64 evaluation of the same
weights, never anything that transformers computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specverify.adapters.references import TINY
from specverify.adapters.transformers_calls import (
    Calls,
    Overheard,
    batch_rows,
    library,
    mtp_layers,
    quiet,
    sampling_arguments,
    seeded,
)
from specverify.adapters.transformers_drafters import PREFILLED, SPECIAL, special_models
from specverify.adapters.transformers_laws import GuidedLaw, Model, TranslatedLaw
from specverify.adapters.transformers_models import RANDOM, Models, load_models, translated
from specverify.adapters.transformers_settings import LONGEST, Settings
from specverify.audit.forms import Completions, EngineInfo, TargetLaw
from specverify.errors import InvalidEmissionError, InvalidInputError
from specverify.warping import SamplingParams

__all__ = ["TransformersEngine"]

_PROMPTS = (1, 3, 12, LONGEST)
"""Tokens of the prompts: short ones and long ones."""

_PERIOD = 9

_SMALLEST = {"other-tokenizer": (5, 1), "mtp": (2, 2)}
"""Tokens and drafts of what is traced: of two common tokens a scrambled vocabulary may keep the
order by chance; MTP layers draft beyond the end, too, which makes many paths."""


@dataclass(eq=False)
class TransformersEngine(Settings):
    """``generate(do_sample=True)`` with drafts of a kind, on a pair.

    By default every pass drafts ``gamma`` tokens, fewer only where the completion has no room for
    more: the library's adaptive schedule and confidence threshold are off, and nothing but its
    length ends a completion. Every completion starts from these settings, whatever a schedule made
    of them in the one before.

    Args:
        **settings: Those of :class:`~specverify.adapters.transformers_settings.Settings`.

    Attributes:
        target: The target as transformers runs it.
        assistant: The draft as transformers runs it.
    """

    target: Any = field(init=False, repr=False)
    assistant: Any = field(init=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        library()
        self._models = _models(self)
        self.target, self.assistant = self._models.target, self._models.assistant

    def describe(self) -> EngineInfo:
        """Version, pair and settings."""
        details = {f.name: getattr(self, f.name) for f in fields(Settings)}
        fixed = self.schedule == "constant" and not self.threshold
        return EngineInfo(
            name=f"transformers generate, {self.mode}",
            version=str(library().__version__),
            randomness="global torch generator",
            # A tested token's law is at most the draft's weight away from the target's.
            declared="lossless" if self.ensemble is None else f"lossy:{1 - self.ensemble:g}",
            vocab_size=self._models.vocab_size,
            gamma=self.gamma if self.drafts and fixed else None,
            eos=self.eos,
            prefill_emits=self.mode in PREFILLED,
            quick=self._models.name == TINY or self.mode in SPECIAL,
            details=details | {"pair": self._models.name, "draft": self._models.draft_name},
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
            calls; the accepted ones are the tokens that the passes themselves did not draw. Of
            batches, and under guidance, which passes the target too, nothing is counted.

        Raises:
            InvalidEmissionError: If a completion has another length than it should have.
        """
        tokens = np.full((n, max_new_tokens), -1, np.int64)
        counts = np.zeros((n, 2), np.int64)
        drafter = self.assistant if self.drafts else None
        with (
            seeded(seed),
            quiet(),
            Overheard(len(prompt)) as heard,
            Calls(self._models.deepest or self.target) as passes,
            Calls(drafter) as drafts,
        ):
            done = 0
            while done < n:
                heard.row, passes.n, drafts.n = done, 0, 0
                texts = self._generate(prompt, max_new_tokens, sampling)[: n - done]
                counts[done] = passes.n, drafts.n
                for text in texts:
                    tokens[done, : len(text)] = text
                    done += 1
        if self.batch > 1 or self.guidance != 1:
            return Completions(tokens=tokens, handed=heard.handed())
        return Completions(
            tokens=tokens,
            accepted=(tokens >= 0).sum(axis=1) - counts[:, 0],
            drafted=self._drafted(counts) if self.drafts else None,
            passes=counts[:, 0],
            handed=heard.handed(),
        )

    def _drafted(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Tokens that were drafted, from passes and calls of what drafts, which the target may be.

        Args:
            counts: Both of each completion, shape ``(n, 2)``.
        """
        passes, calls = counts.T
        own = passes if self.assistant is self.target else 0
        drafted: NDArray[np.int64] = (calls - own) * self._models.drafts_a_call
        return drafted

    def complete(
        self, prompt: Sequence[int], max_new_tokens: int, sampling: SamplingParams
    ) -> list[int]:
        """One completion, drawn from torch's global generator as it is: what can be traced.

        Args:
            prompt: Ids, at least one.
            max_new_tokens: Its length.
            sampling: Temperature and filters.
        """
        with quiet():
            return self._generate(prompt, max_new_tokens, sampling)[0]

    def smallest(
        self, vocab_size: int | None = None, gamma: int | None = None
    ) -> TransformersEngine:
        """An engine with these settings whose completions are few enough to be traced.

        Args:
            vocab_size: Tokens, at least 2; as many as show every difference by default.
            gamma: Drafted tokens of a pass.
        """
        default = _SMALLEST.get(self.mode, (3, 2))
        vocab_size, gamma = vocab_size or default[0], gamma or default[1]
        pair = f"{RANDOM}{vocab_size}"
        fewer = min(self.batch, 2)
        return replace(self, pair=pair, draft=None, gamma=gamma, dtype="float64", batch=fewer)

    def prompts(self) -> list[list[int]] | None:
        """Short ones and long ones, which repeat themselves: prompt lookup finds drafts there.

        Returns:
            None where the pair has a tokeniser: texts serve then.
        """
        if self._models.codec is not None:
            return None
        rng, size = np.random.default_rng(0), self._models.vocab_size
        drawn = [np.resize(rng.integers(size, size=min(n, _PERIOD)), n) for n in _PROMPTS]
        return [prompt.tolist() for prompt in drawn if len(prompt) >= self.shortest]

    def reference(self) -> TargetLaw:
        """The target's law, from our float64 evaluation of the same weights."""
        return self._law(self._models.exact_target)

    def draft_probs(
        self, prompt: Sequence[int], tokens: NDArray[np.int64], sampling: SamplingParams
    ) -> NDArray[np.float64] | None:
        """The draft's law along completions, with arguments and shape of ``TargetLaw.probs``.

        Returns:
            None where nothing drafts, or where its law is no function of the text.
        """
        models = self._models
        if not self.drafts or models.exact_draft is None:
            return None
        if models.ids:
            law = TranslatedLaw(models.exact_draft, models.ids, models.unknown)
            return law.probs(prompt, tokens, replace(sampling, **self.filters))
        return self._law(models.exact_draft).probs(prompt, tokens, sampling)

    def encode(self, text: str) -> list[int]:
        """Ids of a text, to write prompts with.

        Raises:
            InvalidInputError: If the pair came without a tokeniser.
        """
        if self._models.codec is None:
            raise InvalidInputError("pair", f"{self._models.name} has no tokeniser")
        return list(self._models.codec.encode(text))

    def _law(self, model: Model) -> GuidedLaw:
        return GuidedLaw(model, guidance=self.guidance, penalty=self.penalty, filters=self.filters)

    def _generate(
        self, prompt: Sequence[int], length: int, sampling: SamplingParams
    ) -> list[list[int]]:
        ids, mask = batch_rows(prompt, self.batch)
        arguments = sampling_arguments(replace(sampling, **self.filters), length)
        self._start_over()
        with mtp_layers(self.assistant if self.mode == "mtp" else None):
            texts = self.target.generate(ids, attention_mask=mask, **arguments, **self._more())
        new = texts[:, ids.shape[1] :].tolist()
        return [self._checked(text, length) for text in new[: max(1, self.batch - 1)]]

    def _start_over(self) -> None:
        """A schedule writes into the draft's settings."""
        settings = getattr(self.assistant, "generation_config", None)
        if settings is None:  # what drafts a fixed number has none
            return
        settings.num_assistant_tokens = self.gamma
        settings.num_assistant_tokens_schedule = self.schedule
        settings.assistant_confidence_threshold = float(self.threshold)

    def _more(self) -> dict[str, Any]:
        more: dict[str, Any] = dict(self._models.arguments)
        if self.mode in ("assistant", "other-tokenizer"):
            more["assistant_model"] = self.assistant
        if self._models.tokenizers is not None:
            more["tokenizer"], more["assistant_tokenizer"] = self._models.tokenizers
        if self.mode == "prompt-lookup":
            more["prompt_lookup_num_tokens"] = self.gamma
        if self.ensemble is not None:
            more["assistant_ensemble_weight"] = float(self.ensemble)
        if self.guidance != 1:
            more["guidance_scale"] = float(self.guidance)
        if self.penalty != 1:
            more["repetition_penalty"] = float(self.penalty)
        if self.eos is not None:  # padding with a token that texts may hold would hide it there
            more |= {"eos_token_id": self.eos, "pad_token_id": self.eos}
        return more

    def _checked(self, text: list[int], length: int) -> list[int]:
        """A completion up to its end.

        Raises:
            InvalidEmissionError: If it goes on after its end, or has another length without one.
        """
        if self.eos is not None and self.eos in text:
            end = text.index(self.eos) + 1
            padding = text[end:]
            if len(text) > length or (padding and (self.batch == 1 or set(padding) != {self.eos})):
                raise InvalidEmissionError(f"went on after the end token {self.eos}: {text}")
            return text[:end]
        if len(text) != length:
            raise InvalidEmissionError(f"emitted {len(text)} tokens in place of {length}: {text}")
        return text


def _models(engine: TransformersEngine) -> Models:
    if engine.mode in SPECIAL:
        return special_models(engine.mode, engine.pair, engine.gamma, engine.dtype)
    found = load_models(engine.pair, engine.draft, engine.dtype)
    if engine.mode != "other-tokenizer":
        return found
    return translated(found, engine.vocabulary, prune=engine.temperature != 0)
