"""A pair small enough for tens of thousands of completions a minute in any engine.

Its weights are drawn, not trained: what is audited is the engine, and a law far from uniform and
a draft that differs from it are all that an audit needs.
"""

from __future__ import annotations

from pathlib import Path

import torch

from specverify.models.gpt import GPTModel
from specverify.models.weights import save_gpt

__all__ = ["TINY_SEED", "write_tiny_pair"]

TINY_SEED = 20260
_VOCAB, _WIDTH, _HEADS, _LAYERS, _LENGTH = 32, 64, 4, 2, 64
_SPREAD = 0.25
_DRAFT_NOISE = 0.025
_MIXING = 10.0  # without it the tied head makes every token repeat itself


def write_tiny_pair(directory: str | Path, *, seed: int = TINY_SEED) -> Path:
    """Write ``target/`` and ``draft/`` as :func:`specverify.models.pairs.load_pair` reads them.

    Two layers, width 64, 32 tokens, up to 64 positions; the draft is the target with noise on
    every weight.

    Args:
        directory: Where to; files that are there already are kept.
        seed: Seed of the weights.

    Returns:
        The directory.

    Raises:
        MissingDependencyError: If safetensors is not installed.
    """
    place = Path(directory)
    if not (place / "draft" / "config.json").is_file():
        generator = torch.Generator().manual_seed(seed)
        model = GPTModel(_VOCAB, _WIDTH, _HEADS, _LAYERS, _LENGTH, generator=generator)
        _add_noise(model, _SPREAD, generator)
        save_gpt(model, place / "target")
        _add_noise(model, _DRAFT_NOISE, generator)
        save_gpt(model, place / "draft")
    return place


def _add_noise(model: GPTModel, scale: float, generator: torch.Generator) -> None:
    """Noise on every weight; a linear map's is less with more inputs, which it sums."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            sums = parameter.ndim == 2 and not name.startswith(("wte", "wpe"))
            size = _MIXING * parameter.shape[0] ** -0.5 if sums else 1.0
            noise = torch.randn(parameter.shape, generator=generator)
            parameter.add_(noise, alpha=scale * size)
