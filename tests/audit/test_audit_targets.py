"""What users write is found, its form and framework are told, and mistakes are explained."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from specverify.audit.forms import Form, Framework
from specverify.audit.targets import register, registered, resolve, with_settings
from specverify.errors import InvalidInputError, UnknownTargetError


@pytest.mark.parametrize("form", [Form.VERIFY, Form.DECODE])
def test_the_reference_in_every_form(form) -> None:
    target = resolve("reference", form=form)
    assert target.form is form
    assert target.generator == "generator"
    assert target.describe()["name"] == "reference"


def test_a_function_of_a_module_and_of_a_file(tmp_path) -> None:
    module = resolve("specverify.sampler.verify:speculative_verify")
    assert (module.form, module.spec) == (Form.VERIFY, module.name)
    path = tmp_path / "mine.py"
    path.write_text(
        "import torch\n"
        "class Box:\n"
        "    @staticmethod\n"
        "    def check(p, q, x, source=None):\n"
        "        return [0]\n"
    )
    found = resolve(f"{path}:Box.check")
    assert (found.form, found.framework, found.generator) == (Form.VERIFY, Framework.TORCH, "*")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("referense", "did you mean 'reference'"),
        ("no.such.module:f", "cannot import no.such.module"),
        ("specverify.sampler.verify:speculative_verfy", "did you mean 'speculative_verify'"),
        ("nowhere/file.py:f", "no such file"),
        ("specverify.sampler.verify:SMALLEST_DIVISOR", "is not callable"),
    ],
)
def test_mistakes_are_explained(text, message) -> None:
    with pytest.raises(UnknownTargetError, match=message):
        resolve(text, form=Form.VERIFY)


def test_forms_by_signature() -> None:
    def decode(prompt, target_step, draft_step, gamma, max_new_tokens, rng=None):
        return prompt

    def neither(a):
        return a

    assert resolve(decode).form is Form.DECODE
    assert resolve(decode).generator == "rng"
    with pytest.raises(InvalidInputError, match="form: cannot be told from the signature"):
        resolve(neither)
    with pytest.raises(InvalidInputError, match="reference is audited as"):
        resolve("reference", form=Form.GENERATE)


def test_frameworks_by_annotation() -> None:
    def in_numpy(p: np.ndarray, q: np.ndarray, x: np.ndarray):
        return x

    def in_torch(p: torch.Tensor, q: torch.Tensor, x: torch.Tensor, generator: torch.Generator):
        return x

    assert resolve(in_numpy).framework is Framework.NUMPY
    assert resolve(in_numpy).generator is None
    assert resolve(in_torch).framework is Framework.TORCH
    assert resolve(in_torch, framework=Framework.NUMPY).framework is Framework.NUMPY


def test_an_adapter_by_name() -> None:
    register("test-adapter", Form.VERIFY, "specverify.sampler.verify:speculative_verify")
    assert registered()["test-adapter"] == (Form.VERIFY,)
    assert resolve("test-adapter").form is Form.VERIFY


@pytest.mark.parametrize(
    ("target", "settings", "expected"),
    [
        ("llama-cpp", ["mode=probabilistic", "gamma=3"], "llama-cpp:mode=probabilistic,gamma=3"),
        ("llama-cpp:gamma=3", ["mode=plain"], "llama-cpp:gamma=3,mode=plain"),
        ("http://host:80/v1", ["reference=tiny"], "http://host:80/v1#reference=tiny"),
        ("http://host/v1#gamma=2", ["reference=a/b"], "http://host/v1#gamma=2,reference=a/b"),
        ("runs/a.jsonl", ["reference=tiny"], "runs/a.jsonl#reference=tiny"),
        ("reference", [], "reference"),
    ],
)
def test_settings_join_a_target(target: str, settings: list[str], expected: str) -> None:
    assert with_settings(target, settings) == expected


@pytest.mark.parametrize("setting", ["gamma", "=4", "gamma=", "a b=1", "prompts=1,2"])
def test_a_setting_must_have_a_key_and_a_value(setting: str) -> None:
    with pytest.raises(InvalidInputError, match="set: must look like gamma=4"):
        with_settings("llama-cpp", [setting])
