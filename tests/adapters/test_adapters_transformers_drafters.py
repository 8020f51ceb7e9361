"""transformers' special drafters on tiny random models: early exit, MTP, DFlash, universal ones."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import transformers
from numpy.typing import NDArray
from safetensors.torch import save_file
from transformers.generation import candidate_generator

from specverify.adapters import transformers_drafters as drafters
from specverify.adapters.transformers_calls import quiet
from specverify.adapters.transformers_engine import TransformersEngine
from specverify.audit.checks.handed import handed_findings
from specverify.audit.engine_exact import examine
from specverify.audit.exact_record import BIASED, LOSSLESS
from specverify.audit.handed import count_handed
from specverify.audit.tally import Tally
from specverify.audit.targets import resolve
from specverify.errors import InvalidInputError
from specverify.exact import enumerate_law
from specverify.warping import SamplingParams

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "engines.md"
PLAIN = SamplingParams()
PROMPT = [1, 0]
CASES = [("early-exit", 2, 1, 2), ("mtp", 2, 1, 2), ("dflash", 2, 1, 3)]
GENERATORS = {
    "early-exit": "EarlyExitCandidateGenerator",
    "mtp": "MTPCandidateGenerator",
    "dflash": "DFlashTokenCandidateGenerator",
}
RELEASED = pytest.mark.skipif(
    transformers.__version__ != "5.24.0", reason="what is known of the release that is pinned"
)


def small(settings: str, vocab_size: int, gamma: int) -> TransformersEngine:
    engine: TransformersEngine = resolve(f"transformers:{settings}").implementation
    return engine.smallest(vocab_size, gamma)


def heated(engine: TransformersEngine) -> TransformersEngine:
    """Its target's logits doubled."""

    def double(_module, _arguments, output):
        output.logits.mul_(2.0)

    engine.target.register_forward_hook(double)
    return engine


def findings(
    engine: TransformersEngine, prompt: list[int], *, n: int, length: int = 10
) -> set[str]:
    """What is found in what verification was handed in ``n`` completions."""
    drawn = engine.sample(prompt, n, length, PLAIN, seed=4)
    laws = (
        engine.reference().probs(prompt, drawn.tokens, PLAIN),
        engine.draft_probs(prompt, drawn.tokens, PLAIN),
    )
    tally = Tally()
    count_handed(tally, drawn.tokens, laws, drawn.handed, np.random.default_rng(0))
    return {finding.code for finding in handed_findings([tally])}


@pytest.mark.parametrize(
    ("settings", "vocab_size", "gamma", "length"),
    [
        *((f"mode={mode}", *size) for mode, *size in CASES),
        ("mode=mtp", 2, 2, 3),
        ("mode=dflash", 2, 2, 3),
        ("mode=early-exit,penalty=1.5,temperature=0.7", 2, 1, 2),
        ("mode=mtp,penalty=1.5,temperature=0.7", 2, 1, 2),
        ("mode=dflash,penalty=1.5,temperature=0.7", 2, 1, 3),
        ("mode=mtp,eos=1", 2, 2, 2),
        ("mode=dflash,eos=1", 2, 2, 3),
    ],
)
def test_the_law_is_exact(settings: str, vocab_size: int, gamma: int, length: int) -> None:
    record, _ = examine(small(settings, vocab_size, gamma), length)
    assert record.outcome == LOSSLESS, record
    assert record.paths > 2


@pytest.mark.parametrize(("mode", "vocab_size", "gamma", "length"), CASES)
def test_drafts_scored_with_another_law_are_seen(
    mode: str, vocab_size: int, gamma: int, length: int, monkeypatch
) -> None:
    """Negative control: a generator that returns other logits than it drew its drafts from."""
    kind = getattr(candidate_generator, GENERATORS[mode])
    right = kind.get_candidates

    def softer(self, *arguments, **more):
        ids, logits = right(self, *arguments, **more)
        return ids, None if logits is None else logits * 0.3

    monkeypatch.setattr(kind, "get_candidates", softer)
    record, _ = examine(small(f"mode={mode}", vocab_size, gamma), length)
    assert record.outcome == BIASED


@pytest.mark.parametrize(("mode", "vocab_size", "gamma", "length"), CASES)
def test_another_temperature_of_the_target_is_seen(
    mode: str, vocab_size: int, gamma: int, length: int
) -> None:
    engine = heated(small(f"mode={mode}", vocab_size, gamma))
    record, _ = examine(engine, length)
    assert (record.outcome, record.position) == (BIASED, 0)


@pytest.mark.parametrize("mode", GENERATORS)
def test_rows_stay_right_over_long_texts(mode: str) -> None:
    """Texts are longer than the sliding window, and every rejection rolls a cache back."""
    engine, prompt = TransformersEngine(mode=mode, gamma=3), [1, 4, 2, 0, 3, 5, 7, 6] * 4
    assert findings(engine, prompt, n=2, length=16) == set()
    assert "target-rows-differ" in findings(heated(engine), prompt, n=1)


@pytest.mark.parametrize("mode", GENERATORS)
def test_counts_add_up(mode: str) -> None:
    engine = TransformersEngine(mode=mode, gamma=3)
    drawn = engine.sample([1, 4, 2], 4, 12, PLAIN, seed=1)
    np.testing.assert_array_equal(drawn.passes + drawn.accepted, 12)
    assert (drawn.accepted <= drawn.drafted).all()
    assert (drawn.drafted <= 3 * drawn.passes).all()
    assert drawn.accepted.sum() > 0
    info = engine.describe()
    assert (info.gamma, info.quick, info.vocab_size) == (3, True, 8)
    assert info.prefill_emits == (mode != "early-exit")
    again = engine.sample([1, 4, 2], 4, 12, PLAIN, seed=1)
    np.testing.assert_array_equal(drawn.tokens, again.tokens)


def test_an_early_exit_drafts_with_the_first_layer() -> None:
    engine = small("mode=early-exit", 5, 2)
    tokens = np.array([[3, 2, 4]])
    law = engine.draft_probs(PROMPT, tokens, PLAIN)
    base, texts = engine.target.model, torch.tensor([[*PROMPT, 3, 2]])
    with torch.no_grad():
        states = base(texts, output_hidden_states=True).hidden_states[1]
        expected = engine.target.lm_head(base.norm(states))[:, 1:].softmax(-1)
    np.testing.assert_allclose(law, expected.numpy(), atol=1e-6)
    target = engine.reference().probs(PROMPT, tokens, PLAIN)
    assert 0.5 * np.abs(law - target).sum(-1).max() > 0.05


def with_checkpoint(engine: TransformersEngine, place: Path) -> TransformersEngine:
    """Its MTP layers in a checkpoint of its target, under the names of released ones."""
    depth = engine.target.config.text_config.num_hidden_layers
    weights = {}
    for name, weight in engine.assistant.layers.state_dict().items():
        index, rest = name.split(".", 1)
        key = f"model.layers.{depth + int(index)}.{rest.replace('mtp_block.', '')}"
        weights[key] = weight.contiguous()
    save_file(weights, place / "model.safetensors", metadata={"format": "pt"})
    config = engine.target.config
    config.name_or_path, config.dtype = str(place), getattr(torch, engine.dtype)
    return engine


def test_mtp_layers_are_those_of_a_checkpoint(tmp_path) -> None:
    """What is handed over is what ``generate`` reads by itself, and it generates the same."""
    engine = with_checkpoint(small("mode=mtp", 3, 2), tmp_path)
    with quiet():
        read = type(engine.assistant).from_pretrained(engine.target)
        ids = torch.tensor([PROMPT])
        greedy = engine.target.generate(ids, use_mtp=True, do_sample=False, max_new_tokens=6)
    for name, weight in read.state_dict().items():
        assert torch.equal(weight, engine.assistant.state_dict()[name]), name
    ours = engine.sample(PROMPT, 1, 6, SamplingParams(temperature=0.0), seed=0)
    assert greedy[0, 2:].tolist() == ours.tokens[0].tolist()


@RELEASED
def test_a_prompt_of_fewer_tokens_than_mtp_layers_crashes_the_library(tmp_path) -> None:
    engine = with_checkpoint(small("mode=mtp", 3, 3), tmp_path)
    with quiet(), pytest.raises(RuntimeError, match="Sizes of tensors must match"):
        engine.target.generate(torch.tensor([[1]]), use_mtp=True, do_sample=False, max_new_tokens=9)
    engine = TransformersEngine(mode="mtp", gamma=3, shortest=3)
    assert [len(prompt) for prompt in engine.prompts()] == [3, 12, 36]
    assert engine.sample([1, 4, 2], 2, 9, PLAIN, seed=0).tokens.min() >= 0


@pytest.mark.parametrize("vocabulary", ["overlapping", "subset"])
def test_greedy_drafts_go_through_texts_where_tokenizers_differ(
    vocabulary: str, monkeypatch
) -> None:
    """Universal assisted generation: another generator, whose draft is not pruned."""
    kind = candidate_generator.AssistedCandidateGeneratorDifferentTokenizers
    right, drafted = kind._process_assistant_outputs, []

    def listen(self, ids, texts):
        found = right(self, ids, texts)
        drafted.append(found.shape[1] - ids.shape[1])
        return found

    monkeypatch.setattr(kind, "_process_assistant_outputs", listen)
    engine = small(f"mode=other-tokenizer,temperature=0,vocabulary={vocabulary}", 5, 2)
    tokens = engine.sample([1, 0, 3], 1, 10, PLAIN, seed=0).tokens
    law = engine.reference().probs([1, 0, 3], tokens, PLAIN)
    assert law[0, np.arange(10), tokens[0]].tolist() == [1.0] * 10
    assert max(drafted) > 0


@RELEASED
def test_greedy_drafts_through_texts_are_lost_where_a_text_repeats_itself(monkeypatch) -> None:
    """The library looks for the old end in the new text by the longest run that both share."""
    settings = "pair=tiny,gamma=3,mode=other-tokenizer,vocabulary=subset,temperature=0"
    engine: TransformersEngine = resolve(f"transformers:{settings}").implementation
    sampling, prompt = SamplingParams(temperature=0.0), [1, 2, 3]
    drawn = engine.sample(prompt, 1, 8, sampling, seed=0)
    text = drawn.tokens[0].tolist()
    assert text == [15, 16, 18, 19, 18, 18, 19, 28]
    laws = engine.draft_probs(prompt, drawn.tokens, sampling)
    assert laws is not None
    right = laws[0].argmax(axis=-1) == text
    assert (drawn.passes[0], passes_needed(right, gamma=3)) == (6, 3)

    def process(self, ids, texts):
        new = self.convert_source_tokens_to_target_tokens(
            texts[:, ids.shape[1] :],
            source_tokenizer=self.assistant_tokenizer,
            destination_tokenizer=self.target_tokenizer,
        )
        return torch.cat([ids, new], dim=-1)

    kind = candidate_generator.AssistedCandidateGeneratorDifferentTokenizers
    monkeypatch.setattr(kind, "_process_assistant_outputs", process)
    mended = engine.sample(prompt, 1, 8, sampling, seed=0)
    assert mended.tokens[0].tolist() == text
    assert mended.passes[0] == 3


def passes_needed(right: NDArray[np.bool_], gamma: int) -> int:
    """Passes for a text where it is known which of its tokens the draft would have drafted."""
    place = passes = 0
    while place < len(right):
        drafted = right[place : place + min(gamma, len(right) - 1 - place)]
        place += int(np.cumprod(drafted).sum()) + 1
        passes += 1
    return passes


def test_greedy_drafts_that_the_target_lacks_have_no_law_to_expect() -> None:
    """They are read as its unknown token, and the draft goes on from its own."""
    sampling, tokens = SamplingParams(temperature=0.0), np.array([[0, 1]])
    for vocabulary, known in (("overlapping", False), ("subset", True)):
        engine = small(f"mode=other-tokenizer,temperature=0,vocabulary={vocabulary}", 5, 2)
        found = engine.draft_probs([1, 0, 3], tokens, sampling)
        assert (found is not None) == known


@RELEASED
def test_a_subset_vocabulary_crashes_the_library_alone() -> None:
    """The script of the documentation, in which no part of this project runs."""
    scripts = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    (script,) = [text for text in scripts if "assistant_tokenizer" in text]
    assert "specverify" not in script
    with quiet(), pytest.raises(AttributeError, match="assistant_overlap_token_ids"):
        exec(compile(script, "script", "exec"), {})


@RELEASED
@pytest.mark.parametrize(("mode", "length"), [("prompt-lookup", 3), ("mtp", 3), ("dflash", 3)])
def test_guidance_is_biased_with_every_drafter(mode: str, length: int) -> None:
    record, _ = examine(small(f"pair=random-2,mode={mode},guidance=1.5", 2, 1), length)
    assert record.outcome == BIASED


@RELEASED
def test_guidance_crashes_an_early_exit() -> None:
    """Its processor keeps the states of the layers that drafted, and verifies with all of them."""
    with pytest.raises(IndexError, match="list index out of range"):
        small("mode=early-exit,guidance=1.5", 2, 1).sample(PROMPT, 1, 3, PLAIN, seed=0)


@pytest.mark.parametrize("mode", ["assistant", "early-exit"])
def test_an_ensemble_emits_the_mixture_that_it_declares(mode: str) -> None:
    """Of two tokens the first is drafted and tested: its law is that of the mixture."""
    engine, start = small(f"mode={mode},ensemble=0.6", 3, 1), np.zeros((1, 1), np.int64)
    law = enumerate_law(lambda: tuple(engine.complete(PROMPT, 2, PLAIN)))
    found = np.zeros(3)
    for tokens, mass in law.probabilities.items():
        found[tokens[0]] += mass
    target = engine.reference().probs(PROMPT, start, PLAIN)[0, 0]
    draft = engine.draft_probs(PROMPT, start, PLAIN)[0, 0]
    np.testing.assert_allclose(found, 0.6 * target + 0.4 * draft, atol=1e-6)
    assert 0.5 * np.abs(found - target).sum() > 0.02
    assert engine.describe().declared == "lossy:0.4"


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ("ensemble=1", r"ensemble: must lie in \(0, 1\), got 1"),
        ("mode=prompt-lookup,ensemble=0.5", "ensemble: mode prompt-lookup has no draft's"),
        ("mode=mtp,shortest=0", "shortest: must be at least 1, got 0"),
        ("mode=mtp,shortest=40", "shortest: must be at most 36, got 40"),
    ],
)
def test_settings_out_of_range_are_named(settings: str, match: str) -> None:
    with pytest.raises(InvalidInputError, match=match):
        resolve(f"transformers:pair=random-2,{settings}")


@pytest.mark.parametrize("mode", drafters.SPECIAL)
def test_a_library_without_the_models_is_refused(mode: str, monkeypatch) -> None:
    monkeypatch.setattr(drafters, "library", lambda: SimpleNamespace(__version__="4.0"))
    with pytest.raises(InvalidInputError, match=r"mode: transformers 4.0 has no \w+Config"):
        drafters.special_models(mode, "tiny", 2, "float32")


@pytest.mark.parametrize("mode", ["multi-token", "mtp", "dflash", "prompt-lookup", "plain"])
@pytest.mark.parametrize("setting", ["schedule=heuristic", "threshold=0.4"])
def test_schedules_are_refused_where_the_number_of_drafts_is_fixed(mode: str, setting: str) -> None:
    with pytest.raises(InvalidInputError, match=f"mode {mode} has neither schedule nor threshold"):
        resolve(f"transformers:pair=random-2,mode={mode},{setting}")
