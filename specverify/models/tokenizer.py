"""Byte-level BPE for the trained pair, and the split of a text into training and held-out ids."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from specverify.errors import InvalidInputError, MissingDependencyError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

__all__ = ["EncodedText", "encode_split", "train_tokenizer"]

_BLOCK = 100_000
_TRAINING_SHARE = 0.96


@dataclass(frozen=True, kw_only=True)
class EncodedText:
    """Token ids of a text; the last 4 % of every 100,000 characters are held out.

    Attributes:
        training: Ids to train on, int64, shape ``(tokens,)``.
        held_out: Ids to measure on, int64, shape ``(tokens,)``.
        characters_per_token: Of the held-out part.
    """

    training: Tensor
    held_out: Tensor
    characters_per_token: float


def train_tokenizer(text: str, vocab_size: int) -> Tokenizer:
    """Train a byte-level BPE; any text can be encoded, none is normalised away.

    Args:
        text: Training text.
        vocab_size: Number of tokens, at least the 256 bytes.

    Raises:
        InvalidInputError: If the vocabulary is smaller or the text too short to fill it.
        MissingDependencyError: If package tokenizers is not installed.
    """
    try:
        from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    except ImportError as error:
        raise MissingDependencyError("tokenizers", "torch") from error
    if vocab_size < 256:
        raise InvalidInputError("vocab_size", f"must be at least 256, got {vocab_size}")
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(_blocks(text), trainer)
    if tokenizer.get_vocab_size() != vocab_size:
        raise InvalidInputError(
            "vocab_size", f"the text gives {tokenizer.get_vocab_size()} tokens, not {vocab_size}"
        )
    return tokenizer


def encode_split(text: str, tokenizer: Tokenizer) -> EncodedText:
    """Encode a text, with held-out pieces taken from all over it.

    Args:
        text: The text.
        tokenizer: Tokenizer to use.
    """
    training: list[int] = []
    held_out: list[int] = []
    characters = 0
    for block in _blocks(text):
        cut = int(len(block) * _TRAINING_SHARE)
        training += tokenizer.encode(block[:cut]).ids
        held_out += tokenizer.encode(block[cut:]).ids
        characters += len(block) - cut
    return EncodedText(
        training=torch.tensor(training),
        held_out=torch.tensor(held_out),
        characters_per_token=characters / len(held_out),
    )


def _blocks(text: str) -> list[str]:
    return [text[start : start + _BLOCK] for start in range(0, len(text), _BLOCK)]
