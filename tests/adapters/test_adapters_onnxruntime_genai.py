"""ONNX Runtime GenAI: told when missing, its settings checked; run where it is installed."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from specverify.adapters.onnx_files import write_onnx
from specverify.adapters.onnxruntime_genai import OnnxRuntimeGenAI
from specverify.errors import InvalidInputError, MissingDependencyError
from specverify.models.gpt import GPTModel
from specverify.warping import SamplingParams

INSTALLED = pytest.mark.skipif(
    importlib.util.find_spec("onnxruntime_genai") is None,
    reason="ONNX Runtime GenAI comes with `make engines`",
)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for module in ("onnxruntime_genai", "onnx"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingDependencyError, match=r"specdec-verify\[onnxruntime-genai\]"):
        OnnxRuntimeGenAI()
    with pytest.raises(MissingDependencyError, match=r"specdec-verify\[onnxruntime-genai\]"):
        write_onnx(GPTModel(4, 8, 2, 1, 8), tmp_path / "model.onnx")


@pytest.mark.parametrize(
    ("settings", "argument"),
    [({"gamma": 0}, "gamma"), ({"gamma": 17}, "gamma"), ({"mode": "x"}, "mode")],
)
def test_settings_out_of_range_are_refused(settings: dict[str, int], argument: str) -> None:
    with pytest.raises(InvalidInputError, match=argument):
        OnnxRuntimeGenAI(**settings)  # type: ignore[arg-type]


@INSTALLED
def test_the_files_hold_the_model(tmp_path: Path) -> None:
    import onnxruntime

    model = GPTModel(5, 8, 2, 2, 16, generator=torch.Generator().manual_seed(1))
    write_onnx(model, tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(str(tmp_path / "model.onnx"))
    ids = np.array([[1, 2, 0, 4]])
    nothing = np.zeros((1, 2, 0, 4), np.float32)
    names = [i.name for i in session.get_inputs() if i.name.startswith("past")]
    asked = {"attention_mask": np.ones((1, 4), np.int64), "position_ids": np.arange(4)[None]}
    logits, *_ = session.run(None, asked | {"input_ids": ids} | dict.fromkeys(names, nothing))
    with torch.no_grad():
        expected = model(torch.tensor(ids)).numpy()
    np.testing.assert_allclose(logits[..., :-1], expected, atol=1e-4)
    assert (logits[..., -1] < -900).all()


@INSTALLED
@pytest.mark.parametrize("mode", ["draft", "ngram", "plain"])
def test_completions_are_counted_and_repeated_by_their_seed(mode: str) -> None:
    engine = OnnxRuntimeGenAI(mode=mode)
    first, again = (engine.sample([1, 2], 6, 5, SamplingParams(), 3) for _ in range(2))
    np.testing.assert_array_equal(first.tokens, again.tokens)
    assert first.tokens.shape == (6, 5)
    assert first.tokens.max() < engine.describe().vocab_size
    if mode == "plain":
        assert first.passes is None
    else:
        assert (first.passes >= 1).all()
        assert (first.accepted <= first.drafted).all()


@INSTALLED
def test_greedy_search_takes_the_most_probable_tokens() -> None:
    engine = OnnxRuntimeGenAI()
    greedy = SamplingParams(temperature=0.0)
    tokens = engine.sample([1, 2], 1, 6, greedy, 0).tokens
    law = engine.reference().probs([1, 2], tokens, greedy)
    np.testing.assert_array_equal(law[0].argmax(axis=-1), tokens[0])


@INSTALLED
def test_what_it_lacks_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="min_p"):
        OnnxRuntimeGenAI().sample([1], 1, 2, SamplingParams(min_p=0.1), 0)
