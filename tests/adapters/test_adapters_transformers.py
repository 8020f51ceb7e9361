"""transformers as an audit target: exact laws, honest counts, and biases that must be seen."""

from __future__ import annotations

import sys
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from scipy.stats import binomtest
from transformers import GPT2LMHeadModel

import specverify.adapters  # noqa: F401  (registers the engines)
from specverify.adapters.transformers import speculative_sampling
from specverify.adapters.transformers_engine import TransformersEngine
from specverify.audit.forms import Engine, Form, TargetLaw
from specverify.audit.targets import resolve
from specverify.distributions import acceptance_rate
from specverify.errors import InvalidInputError, MissingDependencyError
from specverify.models.step import model_step
from specverify.models.weights import load_gpt
from specverify.stats.goodness import pooled_chi_square
from specverify.theory.block_law import block_law
from specverify.theory.completion_law import completion_law
from specverify.warping import SamplingParams

FALSE_ALARM = 1e-6  # of each statistical test below; all seeds are fixed
PROMPT = [1, 4, 2]
PLAIN = SamplingParams()


@pytest.fixture(scope="module")
def engine(directory) -> TransformersEngine:
    return TransformersEngine(directory, gamma=2)


@contextmanager
def distorted(model, change):
    """While entered, ``change`` is applied in place to every row of logits of a model."""

    def hook(_module, _arguments, output):
        change(output.logits)

    handle = model.register_forward_hook(hook)
    try:
        yield
    finally:
        handle.remove()


def joint_p_value(engine, tokens, sampling=PLAIN) -> float:
    """Chi-square of whole completions against their exact joint law."""

    def next_probs(context):
        return engine.reference().probs(context, np.zeros((1, 1), int), sampling)[0, 0]

    law = completion_law(next_probs, PROMPT, tokens.shape[1], 5)
    counts = np.bincount(np.ravel_multi_index(tuple(tokens.T), law.shape), minlength=law.size)
    return pooled_chi_square(counts, law.ravel()).p_value


def block_p_value(verify) -> float:
    """Chi-square of 2,000 blocks against their exact joint law of tokens and length."""
    target = torch.tensor([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8], [0.2, 0.5, 0.3]])
    draft = torch.tensor([[0.2, 0.5, 0.3], [0.3, 0.3, 0.4]])
    law = block_law(target.double().numpy(), draft.double().numpy())
    counts = dict.fromkeys(law, 0)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(11)
        for _ in range(2000):
            tokens = torch.multinomial(draft, 1).squeeze(1)
            emitted, n_accepted = verify(target, draft, tokens)
            assert len(emitted) == n_accepted + 1
            counts[tuple(emitted.tolist())] += 1
    return pooled_chi_square(np.array(list(counts.values())), np.array(list(law.values()))).p_value


def test_the_function_emits_the_law() -> None:
    assert block_p_value(speculative_sampling) > FALSE_ALARM


def test_swapped_rows_are_seen() -> None:
    """Negative control: the same check on the same function handed the wrong rows."""

    def swapped(target, draft, tokens):
        return speculative_sampling(torch.stack([draft[0], draft[1], target[2]]), draft, tokens)

    assert block_p_value(swapped) < FALSE_ALARM


def test_zero_probabilities_are_handed_over_as_they_are() -> None:
    target = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    emitted, n_accepted = speculative_sampling(
        target, torch.tensor([[0.0, 1.0]]), torch.tensor([1])
    )
    assert (emitted.tolist(), n_accepted) == ([0], 0)


def test_generation_follows_the_joint_law(engine) -> None:
    tokens = engine.sample(PROMPT, 250, 3, PLAIN, seed=3).tokens
    assert joint_p_value(engine, tokens) > FALSE_ALARM


def test_a_draft_of_another_temperature_changes_no_law(engine) -> None:
    with distorted(engine.assistant, lambda logits: logits.mul_(3.0)):
        tokens = engine.sample(PROMPT, 250, 3, PLAIN, seed=4).tokens
    assert joint_p_value(engine, tokens) > FALSE_ALARM


def test_a_target_of_another_temperature_is_seen(engine) -> None:
    """Negative control of the two tests above."""
    with distorted(engine.target, lambda logits: logits.mul_(2.0)):
        tokens = engine.sample(PROMPT, 250, 3, PLAIN, seed=3).tokens
    assert joint_p_value(engine, tokens) < FALSE_ALARM


def test_filters_are_applied_to_both_models(engine) -> None:
    sampling = SamplingParams(temperature=0.6, top_k=4, top_p=0.9, min_p=0.05)
    tokens = engine.sample(PROMPT, 250, 3, sampling, seed=5).tokens
    assert joint_p_value(engine, tokens, sampling) > FALSE_ALARM
    assert joint_p_value(engine, tokens) < FALSE_ALARM  # and they do change the law


def test_temperature_zero_is_the_most_probable_token(engine) -> None:
    greedy = SamplingParams(temperature=0.0)
    tokens = engine.sample(PROMPT, 1, 8, greedy, seed=0).tokens
    law = engine.reference().probs(PROMPT, tokens, greedy)
    assert law[0, np.arange(8), tokens[0]].tolist() == [1.0] * 8


def test_counts_add_up(engine) -> None:
    completions = engine.sample(PROMPT, 20, 7, PLAIN, seed=6)
    assert completions.tokens.shape == (20, 7)
    np.testing.assert_array_equal(completions.passes + completions.accepted, 7)
    assert (completions.accepted <= completions.drafted).all()
    # A pass drafts two tokens; the last ones of a completion may have room for fewer.
    assert (completions.drafted <= 2 * completions.passes).all()
    assert (completions.drafted >= 2 * completions.passes - 3).all()


def test_the_seed_decides_and_the_global_generator_is_restored(engine) -> None:
    before = torch.random.get_rng_state()
    first, again, other = (engine.sample(PROMPT, 3, 6, PLAIN, seed=s).tokens for s in (1, 1, 2))
    assert torch.equal(torch.random.get_rng_state(), before)
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_it_keeps_the_protocols(engine) -> None:
    assert isinstance(engine, Engine)
    assert isinstance(engine.reference(), TargetLaw)
    info = engine.describe()
    assert (info.form, info.gamma, info.vocab_size) == (Form.GENERATE, 2, 5)
    assert info.version == sys.modules["transformers"].__version__


def test_the_reference_is_the_weights_own_law(engine, directory) -> None:
    """Against transformers in float64, and against our step function along the completion."""
    tokens = np.random.default_rng(0).integers(0, 5, (70, 6))
    law = engine.reference().probs(PROMPT, tokens, PLAIN)
    theirs = GPT2LMHeadModel.from_pretrained(directory / "target", dtype=torch.float64).eval()
    texts = torch.cat([torch.tensor(PROMPT).expand(70, -1), torch.from_numpy(tokens)], dim=1)
    with torch.no_grad():
        expected = theirs(texts[:, :-1]).logits[:, 2:].softmax(-1)
    np.testing.assert_allclose(law, expected.numpy(), atol=1e-12)
    step = model_step(load_gpt(directory / "target", dtype=torch.float64))
    np.testing.assert_allclose(law[3, 4], step(texts[3, :7]).numpy(), atol=1e-12)


def test_padding_does_not_disturb_what_stands_before_it(engine) -> None:
    tokens = np.array([[1, 2, 3, 4], [1, 2, -1, -1]])
    law = engine.reference().probs(PROMPT, tokens, PLAIN)
    np.testing.assert_allclose(law[0, :3], law[1, :3], atol=1e-12)


def test_the_draft_law_predicts_acceptance(engine) -> None:
    """Two tokens have room for one draft: one pass suffices with probability exactly alpha."""
    n, start = 200, np.zeros((1, 1), int)
    target = engine.reference().probs(PROMPT, start, PLAIN)[0, 0]
    draft = engine.draft_probs(PROMPT, start, PLAIN)[0, 0]
    alpha = float(acceptance_rate(target, draft))
    completions = engine.sample(PROMPT, n, 2, PLAIN, seed=8)
    assert completions.drafted.tolist() == [1] * n
    assert binomtest(int(completions.accepted.sum()), n, alpha).pvalue > FALSE_ALARM
    unlikely = int(target.argmin())
    with distorted(engine.assistant, lambda logits: logits[..., unlikely].fill_(9.0)):
        worse = engine.sample(PROMPT, n, 2, PLAIN, seed=8)
    assert binomtest(int(worse.accepted.sum()), n, alpha).pvalue < FALSE_ALARM


def test_they_are_registered() -> None:
    assert resolve("transformers").implementation is speculative_sampling
    assert resolve("transformers").form is Form.VERIFY


def test_refuses_bad_input(directory, monkeypatch) -> None:
    with pytest.raises(InvalidInputError, match="gamma: must be at least 1, got 0"):
        TransformersEngine(directory, gamma=0)
    with pytest.raises(InvalidInputError, match="has no tokeniser"):
        TransformersEngine(directory).encode("text")
    with pytest.raises(InvalidInputError, match="at least one token"):
        TransformersEngine(directory).reference().probs([], np.zeros((1, 1), int), PLAIN)
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(MissingDependencyError, match="transformers"):
        TransformersEngine(directory)
