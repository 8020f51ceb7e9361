"""Our GPT models as GGUF files, which llama.cpp reads.

llama.cpp needs a token that ends a text, which our vocabularies do not have. One is added after
the last id, with a row of the output matrix that gives it the same logit, far below all others,
in every context: neither model ever emits it, and the law of the other tokens is what it was.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specverify.errors import InvalidInputError, MissingDependencyError
from specverify.models.gpt import GPTModel

__all__ = ["Vocabulary", "read_vocabulary", "write_gguf"]

_END = "<|end|>"
_END_LOGIT = -1000.0
_NORMAL, _CONTROL = 1, 3
_NAMES = {
    "ln_1": "attn_norm",
    "attn.c_attn": "attn_qkv",
    "attn.c_proj": "attn_output",
    "ln_2": "ffn_norm",
    "mlp.c_fc": "ffn_up",
    "mlp.c_proj": "ffn_down",
}


@dataclass(frozen=True)
class Vocabulary:
    """Tokens of a byte-level BPE.

    Attributes:
        tokens: Text of each id, in the byte-level alphabet.
        merges: Pairs that are merged, in order; llama.cpp needs at least one.
    """

    tokens: Sequence[str]
    merges: Sequence[str]


def read_vocabulary(tokenizer_file: Path | None, vocab_size: int) -> Vocabulary:
    """The vocabulary of a ``tokenizer.json``, or made-up words where there is none.

    Args:
        tokenizer_file: File of package tokenizers, byte-level BPE.
        vocab_size: Number of ids.
    """
    if tokenizer_file is None or not tokenizer_file.is_file():
        words = [chr(ord("A") + i) if i < 26 else f"A{i}" for i in range(vocab_size)]
        return Vocabulary(words, ["A B"])
    model = json.loads(tokenizer_file.read_text("utf-8"))["model"]
    tokens = sorted(model["vocab"], key=model["vocab"].__getitem__)
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in model["merges"]]
    return Vocabulary(tokens, merges)


def write_gguf(
    model: GPTModel, path: Path, vocabulary: Vocabulary, *, eos: int | None = None
) -> None:
    """Write a model in float32.

    Args:
        model: What to write.
        path: The file.
        vocabulary: As many tokens as the model has.
        eos: Which of its tokens ends a text; by default one that it never emits.

    Raises:
        InvalidInputError: If the vocabulary has another size.
        MissingDependencyError: If package gguf is not installed.
    """
    if len(vocabulary.tokens) != model.vocab_size:
        raise InvalidInputError(
            "vocabulary", f"has {len(vocabulary.tokens)} tokens, the model {model.vocab_size}"
        )
    writer = _library().GGUFWriter(path, "gpt2")
    _write_shape(writer, model)
    _write_vocabulary(writer, vocabulary, eos)
    for name, values in _tensors(model).items():
        writer.add_tensor(name, np.ascontiguousarray(values, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _write_shape(writer: Any, model: GPTModel) -> None:
    writer.add_context_length(model.max_length)
    writer.add_embedding_length(model.embed_dim)
    writer.add_block_count(model.num_layers)
    writer.add_feed_forward_length(4 * model.embed_dim)
    writer.add_head_count(model.num_heads)
    writer.add_layer_norm_eps(model.layer_norm_eps)
    writer.add_file_type(0)  # all float32


def _write_vocabulary(writer: Any, vocabulary: Vocabulary, eos: int | None) -> None:
    count = len(vocabulary.tokens)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("default")
    writer.add_token_list([*vocabulary.tokens, _END])
    writer.add_token_types([_NORMAL] * count + [_CONTROL])
    writer.add_token_merges(list(vocabulary.merges))
    writer.add_bos_token_id(count)
    writer.add_eos_token_id(count if eos is None else eos)


def _tensors(model: GPTModel) -> dict[str, NDArray[np.float32]]:
    weights = {name: value.detach().float().numpy() for name, value in model.state_dict().items()}
    embeddings = weights["wte.weight"]
    norm = weights["ln_f.weight"], weights["ln_f.bias"]
    nothing = np.zeros((1, model.embed_dim), np.float32)
    found = {
        "token_embd.weight": np.concatenate([embeddings, nothing]),
        "output.weight": np.concatenate([embeddings, _end_row(*norm)]),
        "position_embd.weight": weights["wpe.weight"],
        "output_norm.weight": norm[0],
        "output_norm.bias": norm[1],
    }
    for layer in range(model.num_layers):
        for ours, theirs in _NAMES.items():
            for kind in ("weight", "bias"):
                values = weights[f"h.{layer}.{ours}.{kind}"]
                # Our linear maps are stored as (inputs, outputs), theirs the other way round.
                found[f"blk.{layer}.{theirs}.{kind}"] = values.T if values.ndim == 2 else values
    return found


def _end_row(weight: NDArray[np.float32], bias: NDArray[np.float32]) -> NDArray[np.float32]:
    """Row of the output matrix whose product with every normalised state is ``_END_LOGIT``.

    A state leaves the last norm as ``weight * z + bias`` with ``sum(z) = 0``: its product with
    ``1 / weight`` is ``sum(bias / weight)``, whatever the context.
    """
    inverse = 1.0 / weight.astype(np.float64)
    constant = float(bias @ inverse)
    if not np.isfinite(constant) or abs(constant) < 1e-3:
        raise InvalidInputError("model", "its last norm leaves no room for a token that ends texts")
    row: NDArray[np.float32] = (_END_LOGIT / constant * inverse).astype(np.float32)[None]
    return row


def _library() -> Any:
    try:
        import gguf
    except ImportError as error:
        raise MissingDependencyError("gguf", "llama-cpp") from error
    return gguf
