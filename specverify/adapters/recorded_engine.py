"""Recorded completions as a target of audits."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specverify.adapters.drafting import DRAFTING, draft_law
from specverify.adapters.recorded import Recording, read_recordings
from specverify.adapters.references import Reference, load_reference
from specverify.audit.forms import EngineInfo
from specverify.errors import InvalidInputError
from specverify.models.law import ModelLaw
from specverify.warping import SamplingParams

__all__ = ["RecordedSamples"]


class RecordedSamples:
    """A file of completions, with the laws that they ought to follow.

    Args:
        path: JSON Lines, Parquet or NPZ; :mod:`specverify.adapters.recorded` tells the fields.
        reference: Model that the laws are evaluated from, where the file does not hold them:
            ``tiny``, ``shipped``, a directory of a pair, or a model directory or hub id.
        gamma: Drafted tokens in a pass, where known.
        drafting: One of :data:`specverify.adapters.drafting.DRAFTING`.
        prefill_emits: Whether the first token comes from the prompt's pass, without drafts.
        tolerance: Total variation that the engine's arithmetic may make from exact laws.

    Raises:
        UnknownTargetError: If the file or the reference cannot be found.
        InvalidInputError: If a record or setting is not what it must be, or no law is known.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        reference: str | None = None,
        gamma: int | None = None,
        drafting: str = "as-target",
        prefill_emits: bool = False,
        tolerance: float = 0.0,
    ) -> None:
        if drafting not in DRAFTING:
            known = ", ".join(DRAFTING)
            raise InvalidInputError("drafting", f"must be one of {known}; got {drafting!r}")
        self.recordings = read_recordings(Path(path))
        self._known: Reference | None = None if reference is None else load_reference(reference)
        if self._known is None and any("target_probs" not in r.laws for r in self.recordings):
            raise InvalidInputError(
                "reference", "names the model of the laws that the file does not hold"
            )
        self._check_ids()
        self._digest = hashlib.sha256(Path(path).read_bytes()).hexdigest()[:12]
        self._settings = {"reference": reference, "drafting": drafting}
        self._gamma, self._drafting, self._tolerance = gamma, drafting, tolerance
        self._prefill_emits = prefill_emits

    def describe(self) -> EngineInfo:
        """The file, told by its digest."""
        return EngineInfo(
            name="recorded completions",
            version=self._digest,
            randomness="recorded",
            declared="lossless",
            vocab_size=self._vocab(self.recordings[0]),
            gamma=self._gamma,
            prefill_emits=self._prefill_emits,
            tolerance=self._tolerance,
            details=self._settings | {"settings": len(self.recordings)},
        )

    def laws(self, which: int, rows: slice) -> Mapping[str, NDArray[np.float64]]:
        """Laws of some completions of a recording, as recorded or else evaluated.

        Args:
            which: Number of the recording.
            rows: Its completions.

        Returns:
            ``target_probs`` and, where known, ``draft_probs`` and ``plain_draft_probs`` (at
            temperature 1 without filters), each of shape ``(n, length, vocab)``.
        """
        recording = self.recordings[which]
        found = {name: law[rows] for name, law in recording.laws.items()}
        if self._known is None:
            return found
        prompts, tokens = recording.prompts[rows], recording.tokens[rows]
        if "target_probs" not in found:
            law = ModelLaw(self._known.target)
            found["target_probs"] = _by_prompt(
                prompts, tokens, lambda p, t: law.probs(p, t, recording.sampling)
            )
        if "draft_probs" not in found and self._known.pair is not None:
            draft = ModelLaw(self._known.pair.draft)  # type: ignore[arg-type]
            for name, sampling in (
                ("draft_probs", recording.sampling),
                ("plain_draft_probs", SamplingParams()),
            ):
                found[name] = _by_prompt(
                    prompts,
                    tokens,
                    lambda p, t, s=sampling: draft_law(draft, self._drafting, (p, t), s),
                )
        return found

    def _vocab(self, recording: Recording) -> int:
        if self._known is not None:
            return int(self._known.target.vocab_size)
        return int(recording.laws["target_probs"].shape[-1])

    def _check_ids(self) -> None:
        for recording in self.recordings:
            vocab, largest = self._vocab(recording), int(recording.tokens.max())
            if largest >= vocab:
                raise InvalidInputError(
                    "target", f"holds id {largest}, outside the law's {vocab} tokens"
                )


def _by_prompt(
    prompts: Sequence[tuple[int, ...]], tokens: NDArray[np.int64], evaluate: Any
) -> NDArray[np.float64]:
    """Laws of completions whose prompts differ, each prompt's rows at once."""
    found: NDArray[np.float64] | None = None
    for prompt in dict.fromkeys(prompts):
        rows = [row for row, other in enumerate(prompts) if other == prompt]
        law = evaluate(prompt, tokens[rows])
        if found is None:
            found = np.zeros((len(prompts), *law.shape[1:]))
        found[rows] = law
    assert found is not None
    return found
