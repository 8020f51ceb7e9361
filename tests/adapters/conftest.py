"""A pair for tests of engines."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from specverify.models.gpt import GPTModel
from specverify.models.weights import save_gpt


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pair of 5 tokens whose laws are far from uniform and from each other."""
    place = tmp_path_factory.mktemp("pair")
    for seed, name in enumerate(("target", "draft")):
        generator = torch.Generator().manual_seed(seed)
        model = GPTModel(5, 8, 2, 1, 32, generator=generator)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(torch.randn(parameter.shape, generator=generator), alpha=0.25)
        save_gpt(model, place / name)
    return place
