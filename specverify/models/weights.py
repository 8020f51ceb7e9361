"""Weights on disk: the directory layout of Hugging Face's GPT-2, safetensors only."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from specverify.errors import InvalidInputError, MissingDependencyError, UnknownTargetError
from specverify.models.gpt import GPTModel

__all__ = ["CONFIG_FILE", "WEIGHTS_FILE", "load_gpt", "save_gpt"]

CONFIG_FILE = "config.json"
WEIGHTS_FILE = "model.safetensors"
_PREFIX = "transformer."
_SIZES = ("vocab_size", "n_embd", "n_head", "n_layer", "n_positions")
# What GPTModel computes; a checkpoint that says otherwise is another architecture.
_FIXED = {
    "model_type": ("gpt2",),
    "activation_function": ("gelu_new", "gelu_pytorch_tanh"),
    "tie_word_embeddings": (True,),
    "scale_attn_weights": (True,),
    "scale_attn_by_inverse_layer_idx": (False,),
    "add_cross_attention": (False,),
}


def save_gpt(model: GPTModel, directory: str | Path, *, dtype: torch.dtype = torch.float32) -> None:
    """Write ``config.json`` and ``model.safetensors`` that ``GPT2LMHeadModel`` reads, too.

    Args:
        model: Model to write.
        directory: Where to; made if it is not there.
        dtype: Dtype of the stored weights; half precision halves the file and rounds the weights.

    Raises:
        MissingDependencyError: If safetensors is not installed.
    """
    tensors = {
        _PREFIX + name: value.detach().to("cpu", dtype).contiguous()
        for name, value in model.state_dict().items()
    }
    place = Path(directory)
    place.mkdir(parents=True, exist_ok=True)
    _safetensors().save_file(tensors, place / WEIGHTS_FILE, metadata={"format": "pt"})
    text = json.dumps(_config(model, dtype), indent=1)
    (place / CONFIG_FILE).write_text(text + "\n", "utf-8")


def load_gpt(directory: str | Path, *, dtype: torch.dtype = torch.float32) -> GPTModel:
    """Read a GPT-2 of the Hugging Face layout, ready for evaluation.

    Args:
        directory: Holds ``config.json`` and ``model.safetensors``.
        dtype: Dtype to compute in; stored half precision widens without loss.

    Raises:
        UnknownTargetError: If a file is not there.
        InvalidInputError: If it is no GPT-2, or the weights do not fit the configuration.
        MissingDependencyError: If safetensors is not installed.
    """
    place = Path(directory)
    for name in (CONFIG_FILE, WEIGHTS_FILE):
        if not (place / name).is_file():
            raise UnknownTargetError("directory", f"{place} has no {name}")
    try:
        config = json.loads((place / CONFIG_FILE).read_text("utf-8"))
    except ValueError as error:
        raise InvalidInputError(
            "directory", f"{place / CONFIG_FILE} is not JSON: {error}"
        ) from None
    model = _from_config(config, place)
    state = _own_names(_safetensors().load_file(place / WEIGHTS_FILE))
    try:
        model.load_state_dict(state)
    except RuntimeError as error:
        raise InvalidInputError("directory", f"weights of {place} do not fit: {error}") from None
    return model.to(dtype).eval()


def _config(model: GPTModel, dtype: torch.dtype) -> dict[str, Any]:
    return {
        "architectures": ["GPT2LMHeadModel"],
        "model_type": "gpt2",
        "vocab_size": model.vocab_size,
        "n_positions": model.max_length,
        "n_embd": model.embed_dim,
        "n_layer": model.num_layers,
        "n_head": model.num_heads,
        "activation_function": "gelu_new",
        "layer_norm_epsilon": model.layer_norm_eps,
        "resid_pdrop": 0.0,
        "embd_pdrop": 0.0,
        "attn_pdrop": 0.0,
        "tie_word_embeddings": True,
        "bos_token_id": None,
        "eos_token_id": None,
        "torch_dtype": str(dtype).removeprefix("torch."),
    }


def _from_config(config: Mapping[str, Any], place: Path) -> GPTModel:
    for key, accepted in _FIXED.items():
        if config.get(key, accepted[0]) not in accepted:
            raise InvalidInputError("directory", f"{place} has {key} = {config[key]!r}")
    missing = [key for key in _SIZES if not isinstance(config.get(key), int)]
    if missing:
        raise InvalidInputError("directory", f"{place / CONFIG_FILE} does not give {missing}")
    if config.get("n_inner") not in (None, 4 * config["n_embd"]):
        raise InvalidInputError("directory", f"{place} has n_inner = {config['n_inner']!r}")
    vocab_size, embed_dim, num_heads, num_layers, max_seq_len = (config[key] for key in _SIZES)
    return GPTModel(
        vocab_size,
        embed_dim,
        num_heads,
        num_layers,
        max_seq_len,
        layer_norm_eps=config.get("layer_norm_epsilon", 1e-5),
    )


def _own_names(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Drop the prefix, the stored masks of old checkpoints, and the tied head's second copy."""
    named = {name.removeprefix(_PREFIX): value for name, value in tensors.items()}
    dropped = (".attn.bias", ".attn.masked_bias")
    state = {k: v for k, v in named.items() if not k.endswith(dropped) and k != "lm_head.weight"}
    head = named.get("lm_head.weight")
    if head is not None and not torch.equal(head, named.get("wte.weight", head)):
        raise InvalidInputError("directory", "the output head is not tied to the embeddings")
    return state


def _safetensors() -> Any:
    try:
        import safetensors.torch
    except ImportError as error:
        raise MissingDependencyError("safetensors", "torch") from error
    return safetensors.torch
