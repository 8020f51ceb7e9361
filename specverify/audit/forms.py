"""The four forms in which an implementation may be handed to an audit.

Glossary, after the rejection samplers of the field: *accepted* tokens are drafts that passed the
test; the *correction* replaces the first rejected draft; the *bonus* follows a block whose drafts
were all accepted; *emitted* tokens are all of these together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

from specverify.errors import InvalidInputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from specverify.warping import SamplingParams

__all__ = [
    "BatchedVerifier",
    "BlockVerifier",
    "Completions",
    "Decoder",
    "Engine",
    "EngineInfo",
    "Form",
    "Framework",
    "Handed",
    "StepFunction",
    "TargetLaw",
]

StepFunction: TypeAlias = Callable[[Any], Any]
"""Maps the tokens so far, shape ``(t,)``, to the next token's probabilities, shape ``(vocab,)``."""


class Form(StrEnum):
    """How an implementation is called."""

    VERIFY = "verify"
    BATCHED = "batched"
    DECODE = "decode"
    GENERATE = "generate"


class Framework(StrEnum):
    """Which arrays and which generator an implementation takes."""

    TORCH = "torch"
    NUMPY = "numpy"


class BlockVerifier(Protocol):
    """One block: drafts in, emitted tokens out."""

    def __call__(
        self, target_probs: Any, draft_probs: Any, draft_tokens: Any, generator: Any = None
    ) -> Any:
        """Verify one block.

        Args:
            target_probs: Target rows, shape ``(gamma + 1, vocab)``.
            draft_probs: Draft rows, shape ``(gamma, vocab)``.
            draft_tokens: Drafted ids, shape ``(gamma,)``; drawn from ``draft_probs``.
            generator: ``torch.Generator`` or ``numpy.random.Generator``.

        Returns:
            ``(emitted, n_accepted)`` or ``emitted`` alone: 1 to ``gamma + 1`` ids, of which the
            first ``n_accepted`` are accepted drafts.
        """


class BatchedVerifier(Protocol):
    """Many blocks at once."""

    def __call__(
        self, target_probs: Any, draft_probs: Any, draft_tokens: Any, generator: Any = None
    ) -> Any:
        """Verify a batch of blocks.

        Args:
            target_probs: Target rows, shape ``(batch, gamma + 1, vocab)``.
            draft_probs: Draft rows, shape ``(batch, gamma, vocab)``.
            draft_tokens: Drafted ids, shape ``(batch, gamma)``.
            generator: ``torch.Generator`` or ``numpy.random.Generator``.

        A verifier may take the keyword ``draft_lengths`` too, drafts of each row, shape
        ``(batch,)``: it is then audited with rows of unequal lengths. What lies beyond a row's
        length is not to be looked at.

        Returns:
            ``(emitted, n_accepted)`` or ``emitted`` alone: ids of shape ``(batch, gamma + 1)``
            padded with -1 at the end of each row, and counts of shape ``(batch,)``.
        """


class Decoder(Protocol):
    """A whole decode loop over step functions."""

    def __call__(
        self,
        prompt: Any,
        target_step: StepFunction,
        draft_step: StepFunction,
        gamma: int,
        max_new_tokens: int,
        generator: Any = None,
    ) -> Any:
        """Decode one completion.

        Args:
            prompt: Ids, shape ``(t,)``, at least one.
            target_step: The target's step function.
            draft_step: The draft's step function.
            gamma: Tokens drafted in an iteration.
            max_new_tokens: Tokens to return, exactly.
            generator: ``torch.Generator`` or ``numpy.random.Generator``.

        Returns:
            ``(tokens, trace)`` or ``tokens`` alone: the new ids (prompt excluded), and one trace
            entry an iteration with ``proposed``, ``n_accepted`` and ``emitted``.
        """


@dataclass(frozen=True, kw_only=True)
class EngineInfo:
    """What an engine says about itself.

    Attributes:
        name: Name for reports.
        version: Version of the library or server.
        form: Form it is audited in; ``generate`` for engines.
        randomness: Where its random numbers come from, e.g. ``"global torch generator"``.
        declared: ``"lossless"``, or ``"lossy:X"`` with the declared total variation.
        vocab_size: Size of the vocabulary, where known.
        gamma: Drafted tokens in a pass, where fixed and known.
        eos: Id that ends a completion, where one does.
        prefill_emits: Whether the first token comes from the prompt's own pass, without drafts.
        tolerance: Total variation by which its arithmetic may differ from exact laws.
        quick: Whether completions cost a few milliseconds, so that every setting is sampled until
            the audit's own bound is reached.
        longest: Most tokens of a completion, for slow engines: longer scenarios are cut there.
        details: Anything else worth recording (JSON-compatible).
    """

    name: str
    version: str
    form: Form = Form.GENERATE
    randomness: str = "unknown"
    declared: str = "lossless"
    vocab_size: int | None = None
    gamma: int | None = None
    eos: int | None = None
    prefill_emits: bool = False
    tolerance: float = 0.0
    quick: bool = False
    longest: int | None = None
    details: dict[str, Any] | None = None


@dataclass(frozen=True, kw_only=True)
class Handed:
    """What an engine's own verification was handed, draft by draft: drafts that it tested alone.

    Attributes:
        rows: Completion of each draft, shape ``(k,)``.
        positions: Its position in the completion, from 0, shape ``(k,)``.
        drafts: Its id, shape ``(k,)``.
        target_probs: The target's law there as the engine had it, shape ``(k, vocab)``.
        draft_probs: The law that the draft was scored with, shape ``(k, vocab)``.
    """

    rows: NDArray[np.int64]
    positions: NDArray[np.int64]
    drafts: NDArray[np.int64]
    target_probs: NDArray[np.float64]
    draft_probs: NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Completions:
    """Sampled completions of one prompt.

    Attributes:
        tokens: New ids, int64, shape ``(n, max_new_tokens)``, padded with -1 after an end.
        accepted: Accepted drafts of each completion, shape ``(n,)``, where counted.
        drafted: Drafted tokens of each completion, shape ``(n,)``, where counted.
        passes: Target passes of each completion, shape ``(n,)``, where counted.
        handed: What verification was handed, where it was overheard: it explains a failure.
    """

    tokens: NDArray[np.int64]
    accepted: NDArray[np.int64] | None = None
    drafted: NDArray[np.int64] | None = None
    passes: NDArray[np.int64] | None = None
    handed: Handed | None = None

    def __post_init__(self) -> None:
        if self.tokens.ndim != 2 or self.tokens.dtype.kind not in "iu":
            raise InvalidInputError(
                "tokens",
                f"needs integer ids of shape (n, max_new_tokens), got {self.tokens.dtype} of "
                f"shape {self.tokens.shape}",
            )
        for name in ("accepted", "drafted", "passes"):
            counts = getattr(self, name)
            if counts is not None and counts.shape != self.tokens.shape[:1]:
                raise InvalidInputError(
                    name, f"needs one count a completion ({len(self.tokens)}), got {counts.shape}"
                )


@runtime_checkable
class TargetLaw(Protocol):
    """The law that an engine's completions ought to follow."""

    def probs(
        self, prompt: Sequence[int], tokens: NDArray[np.int64], sampling: SamplingParams
    ) -> NDArray[np.float64]:
        """Conditional law of each position given the ones before it.

        Args:
            prompt: Prompt ids.
            tokens: Completions, shape ``(n, length)``, padded with -1.
            sampling: Temperature, top-k, top-p, min-p.

        Returns:
            Probabilities, shape ``(n, length, vocab)``; rows after an end are ignored.
        """


@runtime_checkable
class Engine(Protocol):
    """A library or server that generates whole completions.

    An engine whose draft law is known may also have ``draft_probs(prompt, tokens, sampling)``,
    with the arguments and the shape of :meth:`TargetLaw.probs`: acceptance is then predicted. One
    whose target's law cannot be evaluated may have ``sample_plain``, with the arguments of
    :meth:`sample`: the same target without speculation, to compare with. ``prompts()`` may give
    the prompts to use. What ``smallest()`` returns, an engine with ``complete(prompt,
    max_new_tokens, sampling)`` that draws from the global generators, is traced before sampling;
    where that one decodes batches, its ``alone()`` gives the same without: it explains a failure.
    """

    def describe(self) -> EngineInfo:
        """Name, version and what it declares."""

    def sample(
        self,
        prompt: Sequence[int],
        n: int,
        max_new_tokens: int,
        sampling: SamplingParams,
        seed: int,
    ) -> Completions:
        """Draw completions.

        Args:
            prompt: Prompt ids.
            n: Number of completions.
            max_new_tokens: Length of each, unless it ends by itself.
            sampling: Temperature, top-k, top-p, min-p.
            seed: Seed of every draw.

        Returns:
            The completions.
        """

    def reference(self) -> TargetLaw | None:
        """The target's law, or None where it cannot be evaluated."""
