"""What users write is found, its form and framework are told, and mistakes are explained."""

from __future__ import annotations

import textwrap
from pathlib import Path

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
        ("specverify.sampler.verify:SMALLEST_DIVISOR", "is not callable, but of type float"),
        ("my_sampler.py", "my_sampler.py names no function: write path/file.py:function"),
        (".", "names no function: write path/file.py:function"),
    ],
)
@pytest.mark.parametrize("form", [Form.VERIFY, None])
def test_mistakes_are_explained(text, message, form) -> None:
    with pytest.raises(UnknownTargetError, match=message):
        resolve(text, form=form)


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


def _file(folder: Path, text: str) -> Path:
    path = folder / "written.py"
    path.write_text(textwrap.dedent(text))
    return path


_NUMPY_BODY = "return np.array([rng.random() < p[0, x[0]]])"


@pytest.mark.parametrize(
    ("head", "body"),
    [
        ("import numpy as np\nimport torch\n", _NUMPY_BODY),
        ("", f"import numpy as np; {_NUMPY_BODY}"),
        ("from numpy import maximum\n", "return maximum(p[0], 0)"),
        ("import torch\nimport numpy as np\ndef f(p):\n    return np.sum(p)\n", "return f(p)"),
        ("import torch\nimport numpy as np\n", "return [np.sum(row) for row in p]"),
    ],
)
def test_frameworks_by_what_the_code_uses(tmp_path: Path, head: str, body: str) -> None:
    path = _file(tmp_path, f"{head}def verify(p, q, x, rng):\n    {body}\n")
    assert resolve(f"{path}:verify").framework is Framework.NUMPY


def test_torch_code_that_uses_numpy_too_takes_torch(tmp_path: Path) -> None:
    text = """
        import numpy as np
        import torch
        def verify(p, q, x, generator):
            return torch.from_numpy(np.array(x.numpy()))
        def through_a_method(p, q, x, generator):
            return x.numpy()
    """
    path = _file(tmp_path, text)
    assert resolve(f"{path}:verify").framework is Framework.TORCH
    assert resolve(f"{path}:through_a_method").framework is Framework.TORCH


def test_a_partial_function_is_what_it_wraps(tmp_path: Path) -> None:
    text = """
        import functools
        import numpy as np
        def check(p, q, x, rng, eps):
            return np.array([0])
        verify = functools.partial(check, eps=0.0)
    """
    path = _file(tmp_path, text)
    found = resolve(f"{path}:verify")
    assert (found.form, found.framework, found.generator) == (Form.VERIFY, Framework.NUMPY, "rng")
    before = found.describe()["fingerprint"]
    path.write_text(path.read_text() + "# edited\n")
    assert resolve(f"{path}:verify").describe()["fingerprint"] != before


def test_options_do_not_make_a_verifier_a_loop() -> None:
    def verify(target_probs, draft_probs, draft_tokens, generator=None, *, eps=0.0, check=True):
        return draft_tokens

    def batched(target_probs, draft_probs, draft_tokens, draft_lengths, generator):
        return draft_tokens

    assert resolve(verify).form is Form.VERIFY
    assert resolve(batched).form is Form.BATCHED


def test_methods_are_those_of_an_object(tmp_path: Path) -> None:
    text = """
        import numpy as np
        import torch
        class Box:
            def check(self, p, q, x, rng):
                return np.array([0])
            @classmethod
            def of_class(cls, p, q, x, rng):
                return np.array([0])
        class Needy(Box):
            def __init__(self, gamma, eps=0.0):
                self.gamma = gamma
        class Module(torch.nn.Module):
            def forward(self, target_probs, draft_probs, draft_tokens, generator):
                return draft_tokens
    """
    path = _file(tmp_path, text)
    for name in ("Box.check", "Box.of_class"):
        found = resolve(f"{path}:{name}")
        assert (found.form, found.framework) == (Form.VERIFY, Framework.NUMPY)
        assert found.implementation(None, None, None, None) == [0]
    module = resolve(f"{path}:Module")
    assert (module.form, module.generator) == (Form.VERIFY, "generator")
    for name in ("Needy", "Needy.check"):
        with pytest.raises(UnknownTargetError, match="Needy cannot be made without gamma;"):
            resolve(f"{path}:{name}")


def test_our_parameters_in_another_order_are_refused() -> None:
    def verify(draft_tokens, draft_probs, target_probs, rng):
        return draft_tokens

    def by_keyword(*, target_probs, draft_probs, draft_tokens, rng):
        return draft_tokens

    def decode(prompt, target_step, draft_step, max_new_tokens, gamma, rng):
        return prompt

    for function in (verify, by_keyword):
        with pytest.raises(InvalidInputError, match=r"by position with \(target_probs, draft_pro"):
            resolve(function)
    with pytest.raises(InvalidInputError, match=r"with \(prompt, target_step, draft_step, gamma, "):
        resolve(decode)
