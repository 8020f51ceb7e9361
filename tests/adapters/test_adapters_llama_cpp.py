"""llama.cpp's own server, in this process, on GGUF files written from our weights."""

from __future__ import annotations

import importlib.util
import sys

import numpy as np
import pytest
from first_tokens import PLAIN, PROMPT, first_token_p_value

from specverify.adapters.completions_api import completion_request, spaced_seeds
from specverify.adapters.gguf_files import Vocabulary, read_vocabulary, write_gguf
from specverify.adapters.llama_cpp import LlamaCppEngine
from specverify.adapters.llama_process import NGRAM_MODES, Answer
from specverify.adapters.llama_rows import in_rows
from specverify.audit.config import AuditConfig, Budget
from specverify.audit.explanations import draft_variants, expected_passes
from specverify.audit.run import audit
from specverify.audit.targets import resolve
from specverify.errors import InvalidEmissionError, InvalidInputError, MissingDependencyError
from specverify.models.law import ModelLaw
from specverify.models.pairs import load_model, load_pair, shipped_directory
from specverify.models.tiny import write_tiny_pair
from specverify.results import Verdict
from specverify.warping import SamplingParams, warp_probs

FALSE_ALARM = 1e-6  # of each statistical test below; all seeds are fixed

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("xllamacpp") is None,
    reason="xllamacpp is not installed: its wheels are for Linux on x86_64",
)


@pytest.fixture(scope="module")
def engine() -> LlamaCppEngine:
    return LlamaCppEngine(slots=8)


def test_the_first_token_follows_the_target(engine: LlamaCppEngine) -> None:
    law = engine.reference().probs(PROMPT, np.zeros((1, 1), np.int64), PLAIN)[0, 0]
    assert first_token_p_value(engine, law, 4000) > FALSE_ALARM
    # The negative control: the draft's law is not what comes out.
    pair = load_pair(write_tiny_pair(engine._exact.target_source.parent), dtype="float64")
    wrong = ModelLaw(pair.draft).probs(PROMPT, np.zeros((1, 1), np.int64), PLAIN)[0, 0]
    assert first_token_p_value(engine, wrong, 4000) < FALSE_ALARM


@pytest.mark.parametrize("mode", ["sample-and-match", "probabilistic"])
def test_passes_follow_the_law_that_drafts_are_said_to_have(mode: str) -> None:
    engine = LlamaCppEngine(mode=mode, gamma=3, slots=8)
    drawn = engine.sample(PROMPT, 400, 10, PLAIN, seed=3)
    draft = engine.draft_probs(PROMPT, drawn.tokens, PLAIN)
    laws = draft_variants(draft, draft, PLAIN)
    target = engine.reference().probs(PROMPT, drawn.tokens, PLAIN)
    expected = expected_passes(drawn.tokens, target, laws, 3, prefill_emits=True)
    mean, variance = next(iter(expected))  # the standard rule
    assert drawn.passes is not None
    # Greedy drafts leave no spread; float32 may still take the other of two near ties.
    slack = engine.describe().tolerance * drawn.tokens.size
    assert abs(drawn.passes.sum() - mean) < 4.9 * np.sqrt(variance) + slack
    wrong, variance = next(iter(expected_passes(drawn.tokens, target, laws, 3)))
    assert abs(drawn.passes.sum() - wrong) > 4.9 * np.sqrt(variance) + slack


@pytest.mark.parametrize("sampling", [SamplingParams(2.0), SamplingParams(1.0, None, 0.5)])
def test_drafts_heed_the_temperature_of_a_request_and_not_its_filters(sampling) -> None:
    engine = LlamaCppEngine(mode="probabilistic", gamma=3, slots=8)
    drawn = engine.sample(PROMPT, 600, 12, sampling, seed=4)
    target = engine.reference().probs(PROMPT, drawn.tokens, sampling)
    told, unheeded = (
        engine.draft_probs(PROMPT, drawn.tokens, asked) for asked in (sampling, PLAIN)
    )
    wrong = warp_probs(unheeded, SamplingParams(top_p=0.5)) if sampling.top_p else unheeded
    for draft, fits in ((told, True), (wrong, False)):
        laws = draft_variants(draft, draft, sampling)
        expected = expected_passes(drawn.tokens, target, laws, 3, prefill_emits=True)
        mean, variance = next(iter(expected))
        assert bool(abs(drawn.passes.sum() - mean) < 4.9 * np.sqrt(variance)) is fits


def test_a_seed_fixes_the_text(engine: LlamaCppEngine) -> None:
    first, again, other = (engine.sample(PROMPT, 5, 8, PLAIN, seed).tokens for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


def test_greedy_is_the_most_probable_token(engine: LlamaCppEngine) -> None:
    greedy = SamplingParams(temperature=0.0)
    tokens = engine.sample(PROMPT, 1, 8, greedy, seed=0).tokens
    law = engine.reference().probs(PROMPT, tokens, PLAIN)
    np.testing.assert_array_equal(tokens[0], law[0].argmax(-1))


@pytest.mark.parametrize("mode", ["sample-and-match", "probabilistic"])
def test_an_audit_passes_it(mode: str) -> None:
    config = AuditConfig(tv=0.1, isolation="inline", budget=Budget(seconds=60))
    result = audit(f"llama-cpp:mode={mode},slots=8", config=config)
    assert result.summary.law is Verdict.PASS, result.summary.headline
    assert result.target["details"]["mode"] == mode


def test_an_audit_fails_another_temperature(monkeypatch: pytest.MonkeyPatch) -> None:
    sample = LlamaCppEngine.sample

    def cooler(self, prompt, n, max_new_tokens, sampling, seed):  # type: ignore[no-untyped-def]
        wrong = SamplingParams(0.8 * sampling.temperature, sampling.top_k, sampling.top_p)
        return sample(self, prompt, n, max_new_tokens, wrong, seed)

    monkeypatch.setattr(LlamaCppEngine, "sample", cooler)
    config = AuditConfig(tv=0.1, isolation="inline", budget=Budget(seconds=60))
    assert audit("llama-cpp:slots=8", config=config).summary.law is Verdict.FAIL


@pytest.mark.parametrize("mode", NGRAM_MODES)
def test_n_grams_draft_where_texts_repeat(mode: str) -> None:
    engine = LlamaCppEngine(mode=mode, slots=4)
    drawn = engine.sample([3, 1, 4] * 5, 60, 12, PLAIN, seed=0)
    assert engine.draft_probs(PROMPT, drawn.tokens, PLAIN) is None
    assert drawn.accepted is not None
    assert drawn.drafted is not None
    assert drawn.drafted.sum() > 0
    assert (drawn.accepted <= drawn.drafted).all()


def test_prompts_are_short_and_long_and_repeat_themselves_for_n_grams(engine) -> None:
    prompts = engine.prompts()
    assert [len(prompt) for prompt in prompts] == [1, 3, 8, 32]
    for prompt in LlamaCppEngine(mode="ngram").prompts():
        assert len(prompt) == 16
        assert prompt[8:] == prompt[:8] or prompt[3:] == prompt[:-3]


def test_plain_decoding_counts_no_drafts() -> None:
    engine = LlamaCppEngine(mode="plain")
    drawn = engine.sample(PROMPT, 2, 6, PLAIN, seed=0)
    assert engine.draft_probs(PROMPT, drawn.tokens, PLAIN) is None
    assert drawn.drafted is None
    assert (drawn.tokens >= 0).all()


@pytest.mark.parametrize("mode", ["probabilistic", "plain"])
def test_slots_side_by_side_say_what_each_says_alone(mode: str) -> None:
    together = LlamaCppEngine(mode=mode, slots=6)
    side_by_side = together.sample(PROMPT, 6, 16, PLAIN, seed=5)
    request = completion_request(PROMPT, 16, PLAIN)
    alone = LlamaCppEngine(mode=mode)._process
    (first,) = spaced_seeds(5, 1, 6)
    answers = [alone.complete(request | {"seed": first + row}, 1)[0] for row in range(6)]
    assert side_by_side.tokens.tolist() == [answer.tokens for answer in answers]
    assert len({tuple(answer.tokens) for answer in answers}) == 6


def test_an_end_inside_a_block_of_drafts_ends_the_text() -> None:
    end, n = 7, 300
    engine = LlamaCppEngine(mode="probabilistic", gamma=3, slots=6, eos=end)
    drawn = engine.sample(PROMPT, n, 12, PLAIN, seed=2)
    lengths = (drawn.tokens >= 0).sum(axis=1)
    for row, length in zip(drawn.tokens, lengths, strict=True):
        assert end not in row[: length - 1]
        assert length == 12 or row[length - 1] == end
    assert n / 20 < (lengths < 12).sum() < n
    assert drawn.accepted is not None
    assert drawn.accepted[lengths < 12].sum() > 0  # drafts came before the end, not only after it
    assert drawn.passes is None  # what is accepted behind the end is counted too


@pytest.mark.parametrize("mode", ["probabilistic", "plain"])
@pytest.mark.parametrize("prompt", [[5], [3, 1, 4, 1, 5] * 10])
def test_texts_may_come_near_the_end_of_the_context(mode: str, prompt: list[int]) -> None:
    engine = LlamaCppEngine(mode=mode, gamma=6)
    length = 63 - len(prompt)  # one less than there is room for
    greedy = SamplingParams(temperature=0.0)
    drawn = engine.sample(prompt, 1, length, greedy, seed=0)
    assert (drawn.tokens >= 0).all()
    law = engine.reference().probs(prompt, drawn.tokens, PLAIN)
    np.testing.assert_array_equal(drawn.tokens[0], law[0].argmax(-1))


def test_a_text_that_is_cut_short_is_an_error() -> None:
    whole = Answer(tokens=[1, 2], accepted=1, drafted=3, ended=False)
    ended = Answer(tokens=[1], accepted=0, drafted=3, ended=True)
    assert in_rows([whole, ended], 2, counted=True).tokens.tolist() == [[1, 2], [1, -1]]
    cut = Answer(tokens=[1], accepted=0, drafted=3, ended=False)
    with pytest.raises(InvalidEmissionError, match="asked for 2 tokens, got 1 and no end"):
        in_rows([whole, cut], 2, counted=True)


@pytest.mark.parametrize(
    ("target", "match"),
    [
        ("llama-cpp:gamma=0", "gamma: must be at least 1, got 0"),
        ("llama-cpp:mode=medusa", "mode: must be one of sample-and-match"),
        ("llama-cpp:p_min=1.5", r"p_min: must lie in \[0, 1\), got 1.5"),
        ("llama-cpp:slots=0", r"slots: must lie in \[1, 64\], got 0"),
        ("llama-cpp:eos=32", "eos: must be an id below 32, got 32"),
        ("llama-cpp:wrong=all", "wrong: must be one of draft-off, temperature.*; got 'all'"),
        ("llama-cpp:gama=2", "no setting 'gama'.*did you mean 'gamma'"),
    ],
)
def test_mistakes_are_named(target: str, match: str) -> None:
    with pytest.raises(InvalidInputError, match=match):
        resolve(target)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    with pytest.raises(MissingDependencyError, match=r"specdec-verify\[llama-cpp\]"):
        LlamaCppEngine()


def test_a_vocabulary_of_another_size_is_refused(tmp_path) -> None:
    model = load_model(write_tiny_pair(tmp_path) / "target")
    with pytest.raises(InvalidInputError, match="has 2 tokens, the model 32"):
        write_gguf(model, tmp_path / "a.gguf", Vocabulary(["a", "b"], ["a b"]))


def test_the_shipped_tokeniser_is_read() -> None:
    vocabulary = read_vocabulary(shipped_directory() / "tokenizer.json", 1024)
    assert (len(vocabulary.tokens), len(vocabulary.merges)) == (1024, 768)
