"""Random models for the drafters that transformers knows beside a smaller model.

Tiny ones of a few tokens, made from the configurations of the library.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import torch

from specverify.adapters.transformers_calls import library
from specverify.adapters.transformers_models import Models, prepared, random_size
from specverify.errors import InvalidInputError
from specverify.models.transformers_model import TransformersModel

__all__ = ["PREFILLED", "SPECIAL", "special_models"]

_SEEDS = (1, 2)
_TOKENS, _WIDTH, _HEADS, _LENGTH, _WINDOW = 8, 16, 2, 64, 8
_SCALE = 1.5
_EXIT, _LAYERS = 1, 3
"""Layers after which the target's early exit drafts, of how many."""

_BASE: Mapping[str, Any] = {
    "hidden_size": _WIDTH,
    "intermediate_size": _WIDTH,
    "num_attention_heads": _HEADS,
    "num_key_value_heads": 1,
    "head_dim": _WIDTH // _HEADS,
    "max_position_embeddings": _LENGTH,
    "pad_token_id": 0,
    "eos_token_id": None,
    "bos_token_id": None,
    "tie_word_embeddings": False,
}
_VISION: Mapping[str, Any] = {  # never run: the texts hold no pictures
    "hidden_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
}


def special_models(mode: str, pair: Any, gamma: int, dtype: str) -> Models:
    """A random target and what drafts for it.

    Args:
        mode: One of :data:`SPECIAL`.
        pair: ``"random-3"`` for three tokens; anything else is for eight.
        gamma: Drafted tokens of a pass; the library takes them from ``mtp``'s and ``dflash``'s
            models.
        dtype: Dtype that transformers computes in.

    Raises:
        InvalidInputError: If the installed transformers has no such models.
    """
    return SPECIAL[mode](random_size(pair) or _TOKENS, gamma, getattr(torch, dtype))


def _multi_token(vocab_size: int, _gamma: int, dtype: torch.dtype) -> Models:
    """A Gemma 4 and its assistant, which drafts from the target's keys, values and states."""
    text = _made("Gemma4TextConfig", **_gemma(vocab_size, shared=0))
    drafting = _made("Gemma4TextConfig", **_gemma(vocab_size, shared=2))
    config = _made(
        "Gemma4AssistantConfig",
        text_config=drafting,
        backbone_hidden_size=_WIDTH,
        tie_word_embeddings=False,
    )
    target = _target("Gemma4ForCausalLM", text, dtype)
    assistant = _headed(_made("Gemma4AssistantForCausalLM", config), _SEEDS[1]).to(dtype)
    return _models(
        f"gemma4-random-{vocab_size}",
        target,
        assistant=prepared(assistant),
        draft_name="Gemma 4 assistant",
        arguments={"assistant_model": assistant},
    )


def _early_exit(vocab_size: int, _gamma: int, dtype: torch.dtype) -> Models:
    """A Llama whose first layer drafts for all of them."""
    config = _made("LlamaConfig", vocab_size=vocab_size, num_hidden_layers=_LAYERS, **_BASE)
    target = _target("LlamaForCausalLM", config, dtype)
    shallow = copy.deepcopy(target).double()
    shallow.config.num_hidden_layers = _EXIT
    return _models(
        f"llama-random-{vocab_size}",
        target,
        assistant=target,
        exact_draft=TransformersModel(shallow),
        draft_name=f"layers up to {_EXIT} of {_LAYERS}",
        deepest=target.model.layers[-1],
        arguments={"assistant_early_exit": _EXIT},
    )


def _mtp(vocab_size: int, gamma: int, dtype: torch.dtype) -> Models:
    """A Step 3.7 with a layer for each drafted token."""
    text = {
        "vocab_size": vocab_size,
        "num_hidden_layers": 2,
        "layer_types": ["sliding_attention", "full_attention"],
        "mlp_layer_types": ["dense"] * 2,
        "num_nextn_predict_layers": gamma,
        "mtp_layer_types": ["full_attention"] * gamma,
        "mtp_mlp_layer_types": ["dense"] * gamma,
        "sliding_window": _WINDOW,
        **_BASE,
    }
    vision = {**_VISION, "image_size": 28, "patch_size": 14}
    config = _made("Step3p7Config", text_config=text, vision_config=vision)
    target = _target("Step3p7ForConditionalGeneration", config, dtype)
    layers = _mtp_layers(target, gamma).to(dtype)
    return _models(
        f"step3p7-random-{vocab_size}",
        target,
        assistant=layers,
        draft_name=f"{gamma} MTP layers",
        drafts_a_call=gamma,
        arguments={"use_mtp": True},
    )


def _mtp_layers(target: Any, gamma: int) -> Any:
    """What ``generate`` reads from the target's checkpoint, beside its embedding and its head."""
    try:
        from transformers.modeling_layers import MtpModel
    except ImportError:
        raise _missing("MtpModel") from None
    model = MtpModel(target, gamma)
    _drawn(model.layers, torch.Generator().manual_seed(_SEEDS[1]))
    return model.eval()


def _dflash(vocab_size: int, gamma: int, dtype: torch.dtype) -> Models:
    """A Muse Glimmer and its assistant, which fills a block of masks from the target's states."""
    text = {
        "vocab_size": vocab_size,
        "num_hidden_layers": 2,
        "layer_types": ["sliding_attention", "full_attention"],
        "sliding_window": _WINDOW,
        "output_multiplier": 1.0,
        **_BASE,
    }
    vision = {**_VISION, "intermediate_size": 8, "patch_size": 2}
    vision |= {"pos_emb_height": 2, "pos_emb_width": 2}
    config = _made(
        "MuseGlimmerConfig",
        text_config=text,
        vision_config=vision,
        out_hidden_size=32,
        projector_hidden_size=8,
    )
    target = _target("MuseGlimmerForConditionalGeneration", config, dtype)
    drafting = _made(
        "MuseGlimmerAssistantConfig",
        num_hidden_layers=2,
        block_size=gamma + 1,  # the last token of the text stands first
        mask_token_id=vocab_size - 1,
        target_layer_ids=[0, 1],
        sliding_window=_WINDOW,
        **_BASE,
    )
    assistant = _made("MuseGlimmerAssistantModel", drafting).to(dtype).eval()
    _drawn(assistant, torch.Generator().manual_seed(_SEEDS[1]))
    return _models(
        f"muse-glimmer-random-{vocab_size}",
        target,
        assistant=assistant,
        draft_name="Muse Glimmer assistant",
        drafts_a_call=gamma,
        arguments={"assistant_model": assistant, "speculation_type": "dflash"},
    )


SPECIAL: Mapping[str, Callable[[int, int, torch.dtype], Models]] = {
    "multi-token": _multi_token,
    "early-exit": _early_exit,
    "mtp": _mtp,
    "dflash": _dflash,
}
"""Drafters with models of their own, by mode."""

PREFILLED = ("multi-token", "mtp", "dflash")
"""Those that draft from the target's states: the prompt's own pass has no drafts."""


def _models(name: str, target: Any, **more: Any) -> Models:
    exact = TransformersModel(copy.deepcopy(target).double())
    return Models(name=name, target=target, exact_target=exact, vocab_size=exact.vocab_size, **more)


def _target(name: str, config: Any, dtype: torch.dtype) -> Any:
    return prepared(_headed(_made(name, config), _SEEDS[0]).to(dtype))


def _made(name: str, *arguments: Any, **more: Any) -> Any:
    kind = getattr(library(), name, None)
    if kind is None:
        raise _missing(name)
    return kind(*arguments, **more)


def _missing(name: str) -> InvalidInputError:
    return InvalidInputError("mode", f"transformers {library().__version__} has no {name}")


def _headed(model: Any, seed: int) -> Any:
    """Weights whose laws are far from uniform and from each other."""
    generator = torch.Generator().manual_seed(seed)
    _drawn(model, generator)
    embedding = model.get_input_embeddings().weight
    with torch.no_grad():
        embedding.copy_(torch.randn(embedding.shape, generator=generator))
        model.lm_head.weight.mul_(_SCALE)
    return model


def _drawn(model: torch.nn.Module, generator: torch.Generator) -> None:
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.fill_(1.0)
                continue
            scale = parameter.shape[-1] ** -0.5
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * scale)


def _gemma(vocab_size: int, *, shared: int) -> dict[str, Any]:
    return {
        "vocab_size": vocab_size,
        "num_hidden_layers": 2,
        "global_head_dim": _WIDTH // _HEADS,
        "sliding_window": _LENGTH,
        "vocab_size_per_layer_input": 0,
        "hidden_size_per_layer_input": 0,
        "num_kv_shared_layers": shared,
        "layer_types": ["sliding_attention", "full_attention"],
        **_BASE,
    }
