"""Weights on disk: what is refused, and why."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from specverify.errors import InvalidInputError, UnknownTargetError
from specverify.models.gpt import GPTModel
from specverify.models.weights import load_gpt, save_gpt


@pytest.fixture
def place(tmp_path):
    save_gpt(GPTModel(8, 4, 2, 1, 6), tmp_path)
    return tmp_path


def edit_config(place, **changes) -> None:
    file = place / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_names_the_missing_file(place, name) -> None:
    (place / name).unlink()
    with pytest.raises(UnknownTargetError, match=f"has no {name}"):
        load_gpt(place)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"model_type": "llama"}, "model_type = 'llama'"),
        ({"activation_function": "relu"}, "activation_function = 'relu'"),
        ({"tie_word_embeddings": False}, "tie_word_embeddings = False"),
        ({"n_inner": 5}, "n_inner = 5"),
        ({"n_layer": None}, r"does not give \['n_layer'\]"),
        ({"n_layer": 2}, "do not fit"),
    ],
)
def test_refuses_another_architecture(place, changes, problem) -> None:
    edit_config(place, **changes)
    with pytest.raises(InvalidInputError, match=problem):
        load_gpt(place)


def test_refuses_what_is_not_json(place) -> None:
    (place / "config.json").write_text("{")
    with pytest.raises(InvalidInputError, match="is not JSON"):
        load_gpt(place)


def test_reads_old_checkpoints_without_prefix_and_with_masks(place) -> None:
    file = place / "model.safetensors"
    tensors = {k.removeprefix("transformer."): v for k, v in load_file(file).items()}
    tensors["h.0.attn.bias"] = torch.ones(1, 1, 6, 6)
    tensors["lm_head.weight"] = tensors["wte.weight"].clone()
    expected = load_gpt(place).wte.weight
    save_file(tensors, file)
    assert torch.equal(load_gpt(place).wte.weight, expected)
    save_file({**tensors, "lm_head.weight": tensors["wte.weight"] + 1}, file)
    with pytest.raises(InvalidInputError, match="not tied"):
        load_gpt(place)
