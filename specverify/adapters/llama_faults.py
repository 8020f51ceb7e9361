"""Deliberately wrong settings of llama.cpp, to see whether an audit tells them."""

from __future__ import annotations

import copy
from dataclasses import replace

import torch

from specverify.adapters.gguf_files import Vocabulary
from specverify.models.gpt import GPTModel
from specverify.warping import SamplingParams

__all__ = [
    "FAULTS",
    "launched_mode",
    "sent_settings",
    "with_other_rows",
    "with_other_words",
]

DRAFT_OFF, TEMPERATURE, TOP_K = "draft-off", "temperature", "top-k"
OTHER_VOCABULARY, SHUFFLED_DRAFT = "other-vocabulary", "shuffled-draft"

FAULTS = (DRAFT_OFF, TEMPERATURE, TOP_K, OTHER_VOCABULARY, SHUFFLED_DRAFT)
"""Started without a draft while one is declared; 0.8 of the temperature sent; top-k 3 sent; a draft
whose words have other ids than the target's; one that was trained with other ids and says nothing
of it."""

_COOLER = 0.8
_FEWEST = 3


def launched_mode(wrong: str | None, mode: str) -> str:
    """The mode in which the server is really started."""
    return "plain" if wrong == DRAFT_OFF else mode


def sent_settings(wrong: str | None, sampling: SamplingParams) -> SamplingParams:
    """The settings that the server is really sent."""
    if wrong == TEMPERATURE:
        return replace(sampling, temperature=_COOLER * sampling.temperature)
    return replace(sampling, top_k=_FEWEST) if wrong == TOP_K else sampling


def with_other_words(wrong: str | None, vocabulary: Vocabulary) -> Vocabulary:
    """The words that the draft's file gives the ids."""
    if wrong != OTHER_VOCABULARY:
        return vocabulary
    first, *others = vocabulary.tokens
    return Vocabulary([*others, first], vocabulary.merges)


def with_other_rows(wrong: str | None, draft: GPTModel) -> GPTModel:
    """The draft as it is written: with every embedding one id further, where that is the fault."""
    if wrong != SHUFFLED_DRAFT:
        return draft
    shuffled = copy.deepcopy(draft)
    with torch.no_grad():
        shuffled.wte.weight.copy_(torch.roll(draft.wte.weight, 1, dims=0))
    return shuffled
