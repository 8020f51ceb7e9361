"""OpenVINO GenAI: told when missing; its pipeline on files of our weights where installed."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest
from first_tokens import PLAIN, PROMPT, first_token_law, first_token_p_value

from specverify.adapters.openvino_files import write_openvino
from specverify.adapters.openvino_genai import MODES, OpenVinoGenAIEngine
from specverify.audit.config import AuditConfig, Budget
from specverify.audit.run import audit
from specverify.audit.targets import resolve
from specverify.errors import InvalidInputError, MissingDependencyError
from specverify.models.gpt import GPTModel
from specverify.models.law import ModelLaw
from specverify.results import Verdict
from specverify.warping import SamplingParams

FALSE_ALARM = 1e-6  # of each statistical test below; all seeds are fixed
FILTERED = SamplingParams(temperature=0.8, top_k=20, top_p=0.9, min_p=0.02)

installed = pytest.mark.skipif(
    importlib.util.find_spec("openvino_genai") is None,
    reason="OpenVINO GenAI comes with `make engines`",
)


@pytest.fixture(scope="module", params=MODES)
def engine(request: pytest.FixtureRequest) -> OpenVinoGenAIEngine:
    return OpenVinoGenAIEngine(mode=request.param)


@pytest.mark.parametrize("module", ["openvino_genai", "openvino"])
def test_a_missing_package_is_named(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingDependencyError, match=r"specdec-verify\[openvino-genai\]"):
        resolve("openvino-genai")


@pytest.mark.parametrize(
    ("target", "match"),
    [
        ("openvino-genai:gamma=0", "gamma: must be at least 1, got 0"),
        ("openvino-genai:mode=medusa", "mode: must be one of draft, prompt-lookup, plain"),
    ],
)
def test_mistakes_are_named(target: str, match: str) -> None:
    with pytest.raises(InvalidInputError, match=match):
        resolve(target)


@installed
def test_written_files_hold_the_model(tmp_path: Path) -> None:
    import openvino
    import torch

    model = GPTModel(7, 8, 2, 2, 16, generator=torch.Generator().manual_seed(1))
    write_openvino(model, tmp_path)
    exact = {"INFERENCE_PRECISION_HINT": "f32", "KV_CACHE_PRECISION": "f32"}
    request = (
        openvino.Core()
        .compile_model(str(tmp_path / "openvino_model.xml"), "CPU", exact)
        .create_infer_request()
    )
    ids, rows = np.array([[0, 3, 6, 1, 2, 5]]), []
    for start, end in ((0, 3), (3, 4), (4, 6)):  # the states hold what came before
        request.infer(
            {
                "input_ids": ids[:, start:end],
                "attention_mask": np.ones((1, end), np.int64),
                "position_ids": np.arange(start, end)[None],
                "beam_idx": np.zeros(1, np.int32),
            }
        )
        rows.append(request.get_tensor("logits").data.copy())
    expected = model(ids).detach().numpy()
    np.testing.assert_allclose(np.concatenate(rows, axis=1), expected, atol=1e-5)


@installed
@pytest.mark.parametrize("sampling", [PLAIN, FILTERED])
def test_the_first_token_follows_the_target(
    engine: OpenVinoGenAIEngine, sampling: SamplingParams
) -> None:
    law = first_token_law(engine.reference(), sampling)
    assert first_token_p_value(engine, law, 2000, sampling=sampling) > FALSE_ALARM
    # The negative control: the draft's law is not what comes out.
    wrong = first_token_law(ModelLaw(engine._exact.draft), sampling)
    assert first_token_p_value(engine, wrong, 2000, sampling=sampling) < FALSE_ALARM


@installed
def test_greedy_is_the_most_probable_token(engine: OpenVinoGenAIEngine) -> None:
    drawn = engine.sample(PROMPT, 1, 12, SamplingParams(temperature=0.0), seed=0)
    law = ModelLaw(engine._exact.target).probs(PROMPT, drawn.tokens, PLAIN)
    np.testing.assert_array_equal(drawn.tokens[0], law[0].argmax(-1))
    assert drawn.passes is not None
    speculating = engine.describe().details["mode"] == "draft"
    assert (drawn.passes[0] < 12) == speculating


@installed
def test_a_seed_fixes_the_text(engine: OpenVinoGenAIEngine) -> None:
    first, again, other = (engine.sample(PROMPT, 3, 8, PLAIN, seed).tokens for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


@installed
def test_only_drafts_have_a_law() -> None:
    for mode in ("prompt-lookup", "plain"):
        engine = OpenVinoGenAIEngine(mode=mode)
        drawn = engine.sample(PROMPT, 2, 6, PLAIN, seed=0)
        assert engine.draft_probs(PROMPT, drawn.tokens, PLAIN) is None


@installed
def test_an_audit_tells_another_temperature(monkeypatch: pytest.MonkeyPatch) -> None:
    config = AuditConfig(tv=0.1, isolation="inline", budget=Budget(seconds=60))
    target = "openvino-genai:mode=prompt-lookup"
    assert audit(target, config=config).summary.law is Verdict.PASS
    sample = OpenVinoGenAIEngine.sample

    def cooler(self, prompt, n, max_new_tokens, sampling, seed):  # type: ignore[no-untyped-def]
        wrong = SamplingParams(0.8 * sampling.temperature, sampling.top_k, sampling.top_p)
        return sample(self, prompt, n, max_new_tokens, wrong, seed)

    monkeypatch.setattr(OpenVinoGenAIEngine, "sample", cooler)
    assert audit(target, config=config).summary.law is Verdict.FAIL
