"""The settings of transformers' generation, as they follow a target's name."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

from specverify.adapters.transformers_drafters import SPECIAL
from specverify.adapters.transformers_models import VOCABULARIES
from specverify.errors import InvalidInputError
from specverify.models.pairs import SHIPPED, Source
from specverify.warping import SamplingParams

__all__ = ["LONGEST", "MODES", "SCHEDULES", "Settings"]

MODES = ("assistant", "other-tokenizer", *SPECIAL, "prompt-lookup", "plain")
"""What drafts: a model with the target's vocabulary, one with its own, a Gemma 4 assistant that
reads the target's states, the target's first layer, its layers for multi-token prediction, a block
of masks that the target's states fill (DFlash), n-grams of the text so far, nothing."""

LONGEST = 36
"""Tokens of the longest prompt."""

_ADAPTIVE = ("assistant", "other-tokenizer", "early-exit")
"""Modes whose number of drafts follows a schedule and a threshold."""

SCHEDULES = ("constant", "heuristic", "heuristic_transient")
"""The library's names for how the number of drafts follows what was accepted."""

_FILTERS = ("temperature", "top_k", "top_p", "min_p")


@dataclass(eq=False)
class Settings:
    """What is generated, and how.

    Args:
        pair: ``"tiny"``, ``"random-3"`` (three tokens), or what
            :func:`specverify.models.pairs.load_pair` takes. The special drafters have models of
            their own, of eight tokens, or of as many as ``"random-3"`` says.
        draft: Which draft; the pair's default one by default.
        mode: One of :data:`MODES`.
        gamma: Drafted tokens in a pass, at least 1.
        dtype: Dtype that transformers computes in.
        schedule: One of :data:`SCHEDULES`.
        threshold: Draft probability under which drafting stops, in [0, 1).
        guidance: Guidance scale; 1 is none.
        penalty: Repetition penalty, above 0; 1 is none.
        temperature: In place of every request's; likewise the three filters.
        top_k: Most probable tokens that are kept.
        top_p: Mass that is kept.
        min_p: Least probability that is kept, relative to the highest.
        eos: Id that ends a completion.
        batch: Rows of a call, the last with a longer prompt; only where nothing drafts.
        vocabulary: The draft's, for ``other-tokenizer``: ``overlapping`` or ``subset``.
        ensemble: Weight of the target in the mixture with the draft that drafts are tested against,
            in (0, 1), which is lossy; the target alone by default.
        shortest: Fewest tokens of a drawn prompt, at most 36: shorter ones are left out.

    Raises:
        InvalidInputError: If a setting is out of its range or does not go with the mode.
    """

    pair: Source | tuple[Source, Source] = SHIPPED
    _: KW_ONLY
    draft: Source | None = None
    mode: str = "assistant"
    gamma: int = 4
    dtype: str = "float32"
    schedule: str = "constant"
    threshold: float = 0.0
    guidance: float = 1.0
    penalty: float = 1.0
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    eos: int | None = None
    batch: int = 1
    vocabulary: str = "overlapping"
    ensemble: float | None = None
    shortest: int = 1

    def __post_init__(self) -> None:
        self._check_ranges()
        self._check_names()
        if self.batch > 1 and self.mode != "plain":
            raise InvalidInputError("batch", f"only mode plain takes several rows, not {self.mode}")
        if (self.schedule != SCHEDULES[0] or self.threshold) and self.mode not in _ADAPTIVE:
            text = f"mode {self.mode} has neither schedule nor threshold"
            raise InvalidInputError("mode", text)
        if self.ensemble is not None and not self.drafts:
            raise InvalidInputError("ensemble", f"mode {self.mode} has no draft's probabilities")
        SamplingParams(**self.filters)

    @property
    def drafts(self) -> bool:
        """Whether a model drafts."""
        return self.mode not in ("prompt-lookup", "plain")

    @property
    def filters(self) -> dict[str, Any]:
        """Fields of ``SamplingParams`` that take the place of every request's."""
        return {name: v for name in _FILTERS if (v := getattr(self, name)) is not None}

    def _check_ranges(self) -> None:
        for name in ("gamma", "batch", "shortest"):
            if (value := getattr(self, name)) < 1:
                raise InvalidInputError(name, f"must be at least 1, got {value}")
        if self.shortest > LONGEST:
            raise InvalidInputError("shortest", f"must be at most {LONGEST}, got {self.shortest}")
        if not 0 <= self.threshold < 1:
            raise InvalidInputError("threshold", f"must lie in [0, 1), got {self.threshold}")
        if self.ensemble is not None and not 0 < self.ensemble < 1:
            raise InvalidInputError("ensemble", f"must lie in (0, 1), got {self.ensemble}")
        if not self.penalty > 0:
            raise InvalidInputError("penalty", f"must be above 0, got {self.penalty}")

    def _check_names(self) -> None:
        for name, known in (
            ("mode", MODES),
            ("schedule", SCHEDULES),
            ("vocabulary", VOCABULARIES),
        ):
            if (value := getattr(self, name)) not in known:
                raise InvalidInputError(name, f"must be one of {', '.join(known)}; got {value!r}")
