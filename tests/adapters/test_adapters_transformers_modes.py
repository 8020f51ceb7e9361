"""transformers' ways of generating, traced path by path on pairs of a few tokens."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch
import transformers
from transformers import GPT2LMHeadModel

from specverify.adapters.transformers_engine import TransformersEngine
from specverify.audit.checks.handed import handed_findings
from specverify.audit.engine_exact import examine, search_tally
from specverify.audit.exact_record import BIASED, LOSSLESS
from specverify.audit.handed import count_handed
from specverify.audit.tally import Tally
from specverify.audit.targets import resolve
from specverify.errors import InvalidEmissionError, InvalidInputError
from specverify.warping import SamplingParams, warp_probs

PLAIN = SamplingParams()
PROMPT = [1, 0]
RELEASED = pytest.mark.skipif(
    transformers.__version__ != "5.24.0", reason="what is known of the release that is pinned"
)


def small(settings: str, vocab_size: int = 2, gamma: int = 1) -> TransformersEngine:
    engine: TransformersEngine = resolve(f"transformers:pair=random-2,{settings}").implementation
    return engine.smallest(vocab_size, gamma)


def findings(
    engine: TransformersEngine, sampling: SamplingParams, n: int, length: int = 6
) -> dict[str, dict]:
    """What was found in what verification was handed in ``n`` completions, by code."""
    drawn = engine.sample(PROMPT, n, length, sampling, seed=4)
    laws = (
        engine.reference().probs(PROMPT, drawn.tokens, sampling),
        engine.draft_probs(PROMPT, drawn.tokens, sampling),
    )
    tally = Tally()
    count_handed(tally, drawn.tokens, laws, drawn.handed, np.random.default_rng(0))
    return {finding.code: finding.data for finding in handed_findings([tally])}


@pytest.mark.parametrize(
    ("settings", "vocab_size", "gamma", "length"),
    [
        ("mode=assistant", 2, 2, 2),
        ("mode=assistant,temperature=0.7,min_p=0.2", 3, 1, 2),
        ("mode=assistant,top_k=2", 3, 1, 2),
        ("mode=assistant,top_p=0.8", 3, 1, 2),
        ("mode=assistant,penalty=1.5", 2, 1, 2),
        ("mode=assistant,eos=1", 3, 1, 2),
        ("mode=assistant,schedule=heuristic,threshold=0.4", 2, 1, 3),
        ("mode=prompt-lookup", 2, 2, 3),
        ("mode=plain", 3, 1, 2),
        ("mode=plain,guidance=1.5", 2, 1, 3),
        ("mode=plain,penalty=0.7", 3, 1, 2),
        ("mode=plain,batch=5", 2, 1, 2),
    ],
)
def test_the_law_is_exact(settings: str, vocab_size: int, gamma: int, length: int) -> None:
    record, _ = examine(small(settings, vocab_size, gamma), length)
    assert record.outcome == LOSSLESS, record
    assert record.paths > 1


def test_another_temperature_is_seen() -> None:
    """Negative control: the same comparison, with the target's logits doubled."""
    engine = small("mode=assistant")

    def double(_module, _arguments, output):
        output.logits.mul_(2.0)

    engine.target.register_forward_hook(double)
    record, _ = examine(engine, 2)
    assert (record.outcome, record.position) == (BIASED, 0)


@RELEASED
def test_guidance_is_biased_and_its_smallest_case_is_found() -> None:
    target = resolve("transformers:pair=random-3,guidance=1.5")
    case = search_tally(target).cases["counterexample"]
    size = [case[key] for key in ("vocab_size", "gamma", "max_new_tokens")]
    assert size <= [2, 1, 2]
    assert case["tv"] > 1e-3
    found, expected = ([row[key] for row in case["laws"]] for key in ("found", "expected"))
    assert sum(found) == pytest.approx(1) == sum(expected)
    assert "guidance=1.5" in case["snippet"]
    compile(case["snippet"], "snippet", "exec")


@RELEASED
def test_guidance_is_traced_to_the_rows_of_the_target() -> None:
    told = findings(small("mode=assistant,guidance=1.5", 3), PLAIN, 4)
    assert told["target-rows-differ"]["mean_tv"] > 0.01
    assert "drafts-scored-with-another-law" not in told


def test_nothing_is_found_where_nothing_is_wrong() -> None:
    assert findings(small("mode=assistant", 3, 2), PLAIN, 6) == {}


@RELEASED
def test_a_gemma_assistant_drafts_greedily_and_scores_softly() -> None:
    engine = TransformersEngine(mode="multi-token", gamma=2)
    record, _ = examine(engine.smallest(3, 1), 3)
    assert (record.outcome, record.position) == (BIASED, 1)
    told = findings(engine, PLAIN, 8, 12)["drafts-scored-with-another-law"]
    assert told["consistent_with"] == "argmax_draft"
    assert engine.draft_probs(PROMPT, np.zeros((1, 1), np.int64), PLAIN) is None
    assert engine.describe().prefill_emits


def with_vocabulary(engine: TransformersEngine, *, reverse: bool) -> TransformersEngine:
    """Its draft's tokens are listed by id: a hash map lists them in any order."""
    tokenizer = engine._models.tokenizers[1]
    ids = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1], reverse=reverse)
    tokenizer.get_vocab = lambda: dict(ids)
    return engine


@RELEASED
def test_another_vocabulary_is_scrambled_by_the_order_of_its_listing(monkeypatch) -> None:
    from specverify.adapters import transformers_models as models

    # The library reads the listing when the draft is pruned: later than here, as it would be.
    monkeypatch.setattr(models, "_prune", lambda *_: None)
    settings = "mode=other-tokenizer"
    wrong, _ = examine(with_vocabulary(small(settings, 3), reverse=True), 2)
    right, _ = examine(with_vocabulary(small(settings, 3), reverse=False), 2)
    assert (wrong.outcome, right.outcome) == (BIASED, LOSSLESS)


@RELEASED
def test_a_vocabulary_without_tokens_of_its_own_crashes() -> None:
    engine = small("mode=other-tokenizer,vocabulary=subset", 3)
    with pytest.raises(AttributeError, match="assistant_overlap_token_ids"):
        engine.sample(PROMPT, 1, 3, PLAIN, seed=0)


def test_the_translated_law_is_that_of_common_tokens() -> None:
    engine = small("mode=other-tokenizer", 5)
    law = engine.draft_probs(PROMPT, np.array([[2, 3]]), PLAIN)
    ids = engine._models.ids
    assert [i for i, own in enumerate(ids) if own < 0] == [4]
    assert (law[..., 4] == 0).all()
    np.testing.assert_allclose(law.sum(-1), 1)
    text = torch.tensor([[ids[1], ids[0], ids[2]]])
    logits = engine._models.exact_draft(text)[0, -1, list(ids[:4])]
    np.testing.assert_allclose(law[0, 1, :4], logits.softmax(-1).numpy(), atol=1e-12)


@RELEASED
@pytest.mark.parametrize("sampling", [SamplingParams(temperature=0.5), SamplingParams(top_p=0.7)])
def test_temperature_and_top_p_reach_the_draft_twice(sampling: SamplingParams) -> None:
    """No fault of the law: fewer drafts are accepted."""
    engine = small("mode=assistant", 3, 2)
    drawn = engine.sample(PROMPT, 6, 6, sampling, seed=2)
    once = engine.draft_probs(PROMPT, drawn.tokens, sampling)
    at = (drawn.handed.rows, drawn.handed.positions)
    distance = [
        0.5 * np.abs(law[at] - drawn.handed.draft_probs).sum(-1).max()
        for law in (once, warp_probs(once, sampling))
    ]
    assert distance[0] > 0.02
    assert distance[1] < 1e-6
    assert set(findings(engine, sampling, 4)) == {"draft-rows-differ"}


def test_top_k_reaches_the_draft_as_it_should() -> None:
    """The control of the test above: a second application changes nothing."""
    assert findings(small("mode=assistant,top_k=2", 3, 2), PLAIN, 6) == {}


def test_an_end_token_ends_a_completion() -> None:
    engine = small("mode=assistant,eos=1", 3, 2)
    tokens = engine.sample(PROMPT, 16, 6, PLAIN, seed=0).tokens
    ended = (tokens == 1).any(axis=1)
    assert ended.any()
    assert (ended | (tokens >= 0).all(axis=1)).all()
    for row in tokens[ended]:
        end = row.tolist().index(1)
        assert (row[end + 1 :] == -1).all()
    with pytest.raises(InvalidEmissionError, match="went on after the end token 1"):
        engine._checked([0, 1, 2], 6)
    with pytest.raises(InvalidEmissionError, match="emitted 2 tokens in place of 6"):
        engine._checked([0, 2], 6)
    with pytest.raises(InvalidEmissionError, match="emitted 7 tokens in place of 6"):
        engine._checked([0] * 7, 6)


def test_rows_of_a_batch_do_not_disturb_each_other() -> None:
    """Greedy rows beside a longer one are those of a batch of one; a wrong mask would show."""
    greedy = SamplingParams(temperature=0.0)
    alone, beside = (small(f"mode=plain,batch={n}", 5) for n in (1, 4))
    prompt = [1, 4, 2, 0]
    single = alone.sample(prompt, 1, 8, greedy, seed=0).tokens
    drawn = beside.sample(prompt, 7, 8, greedy, seed=0).tokens
    assert (drawn == single).all()
    assert drawn.shape == (7, 8)


@pytest.mark.parametrize("length", [1, 2])
@pytest.mark.parametrize("prompt", [[2], [1, 0] * 20])
def test_short_and_long_prompts_and_lengths(prompt: list[int], length: int) -> None:
    engine = small("mode=assistant", 3, 2)
    drawn = engine.sample(prompt, 3, length, PLAIN, seed=0)
    assert drawn.tokens.shape == (3, length)
    assert ((drawn.tokens >= 0) & (drawn.tokens < 3)).all()
    assert sorted(map(len, engine.prompts())) == [1, 3, 12, 36]


def test_the_guided_law_is_that_of_its_definition() -> None:
    engine = small("mode=plain,guidance=1.5,penalty=1.2,top_k=2", 3)
    text = np.array([[2, 0, 1]])
    law = engine.reference().probs(PROMPT, text, PLAIN)[0, 2]
    model: GPT2LMHeadModel = engine.target
    with torch.no_grad():
        whole = model(torch.tensor([[*PROMPT, 2, 0]])).logits[0, -1].log_softmax(-1)
        alone = model(torch.tensor([[PROMPT[-1], 2, 0]])).logits[0, -1].log_softmax(-1)
    scores = alone + 1.5 * (whole - alone)
    scores = torch.where(scores > 0, scores / 1.2, scores * 1.2)  # all three have occurred
    scores[scores < scores.topk(2).values[-1]] = -torch.inf
    np.testing.assert_allclose(law, scores.softmax(-1).numpy(), atol=1e-9)


def test_the_law_of_all_completions_sums_to_one() -> None:
    texts = np.array(list(product(range(3), repeat=2)))
    rows = small("mode=assistant,penalty=1.4", 3).reference().probs(PROMPT, texts, PLAIN)
    masses = np.take_along_axis(rows, texts[..., None], -1)[..., 0].prod(axis=1)
    assert masses.sum() == pytest.approx(1)


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ("mode=medusa", "mode: must be one of assistant, other-tokenizer"),
        ("schedule=none at all", "schedule: must be one of constant"),
        ("mode=other-tokenizer,vocabulary=large", "vocabulary: must be one of overlapping"),
        ("batch=2", "batch: only mode plain takes several rows, not assistant"),
        ("batch=0", "batch: must be at least 1, got 0"),
        ("threshold=1", r"threshold: must lie in \[0, 1\), got 1"),
        ("penalty=0", "penalty: must be above 0, got 0"),
        ("top_p=2", "top_p"),
        ("pair=random-1", "needs at least two tokens"),
        ("gamme=3", "no setting 'gamme'.*did you mean 'gamma'"),
    ],
)
def test_mistakes_are_named(settings: str, match: str) -> None:
    with pytest.raises(InvalidInputError, match=match):
        resolve(f"transformers:{settings}")
