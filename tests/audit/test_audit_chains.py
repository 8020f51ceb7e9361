"""Laws of chains against brute force and against the zoo's enumeration."""

from __future__ import annotations

import itertools
from functools import partial

import numpy as np
import pytest

from specverify.audit.chains import Chain, accepted_pmf, marginals, pair_law, path_law
from specverify.audit.decoding import prompt_of, step_functions
from specverify.audit.forms import Form, Framework
from specverify.audit.scenarios import Scenario, find, scenarios
from specverify.bugs import CONTROLS
from specverify.bugs.draws import enumerate_draws
from specverify.bugs.laws import block_law
from specverify.bugs.loops import Request, StagedDecoder
from specverify.bugs.staged import StagedVerifier
from specverify.errors import InvalidEmissionError, InvalidInputError
from specverify.models.tabular import TabularModel
from specverify.theory.completion_law import completion_law

MARKOV = find(Form.VERIFY, "markov")


def _brute(chain: Chain, length: int) -> np.ndarray:
    law = np.ones((chain.vocab_size,) * length)
    for path in np.ndindex(*law.shape):
        for position, token in enumerate(path):
            law[path] *= chain.target[position, chain.context(path[:position]), token]
    return law


@pytest.mark.parametrize("name", ["markov", "zeros-in-target"])
def test_path_law_and_its_projections(name: str) -> None:
    chain = find(Form.VERIFY, name).chain
    law = _brute(chain, 3)
    np.testing.assert_allclose(path_law(chain, 3), law.reshape(-1), atol=1e-15)
    classes = np.tile(np.arange(chain.vocab_size), (3, 1))
    np.testing.assert_allclose(pair_law(chain, 1, classes), law.sum(axis=0), atol=1e-15)
    if chain.contexts > 1:
        np.testing.assert_allclose(marginals(chain, 3)[2], law.sum(axis=(0, 2)), atol=1e-15)


def test_accepted_pmf_is_the_enumerated_one() -> None:
    scenario = find(Form.VERIFY, "zeros-in-draft")
    chain, gamma = scenario.chain, scenario.gamma
    law = block_law(StagedVerifier(), chain.target[: gamma + 1, 0], chain.draft[:gamma, 0])
    lengths = np.zeros(gamma + 2)
    for tokens, probability in law.items():
        lengths[len(tokens)] += probability
    np.testing.assert_allclose(accepted_pmf(chain, gamma), lengths[1:], atol=1e-12)


def test_accepted_pmf_of_matching_by_hand() -> None:
    chain = Chain(target=np.array([[[0.5, 0.5]]] * 2), draft=np.array([[[0.9, 0.1]]] * 2))
    np.testing.assert_allclose(accepted_pmf(chain, 1, matching=True), [0.5, 0.5])
    np.testing.assert_allclose(accepted_pmf(chain, 1), [0.4, 0.6])


def test_refuses_rows_that_do_not_fit() -> None:
    rows = np.full((2, 1, 3), 1 / 3)
    with pytest.raises(InvalidInputError, match="draft: shape"):
        Chain(target=rows, draft=rows[:1])
    for wrong in (rows[0], np.full((2, 6, 3), 1 / 3)):
        with pytest.raises(InvalidInputError, match="target: needs shape"):
            Chain(target=wrong, draft=wrong)
    with pytest.raises(InvalidInputError, match="start: is no context"):
        Chain(target=rows, draft=rows, start=1)


@pytest.fixture(scope="module")
def order_two() -> Scenario:
    return find(Form.DECODE, "order-2")


def _model(scenario: Scenario, side: str) -> TabularModel:
    rows = getattr(scenario.chain, side)[0]
    return TabularModel(rows.reshape((scenario.vocab_size,) * (scenario.chain.order + 1)))


def test_two_tokens_back_the_laws_are_the_enumerated_ones(order_two) -> None:
    chain, length, vocab = order_two.chain, order_two.length, order_two.vocab_size
    prompt = prompt_of(order_two)
    law = completion_law(_model(order_two, "target").next_probs, prompt, length, vocab)
    np.testing.assert_allclose(path_law(chain, length), law.reshape(-1), atol=1e-12)
    assert law.sum() == pytest.approx(1, abs=1e-12)
    seen = np.zeros((length, vocab, vocab))
    pairs = np.zeros((length, vocab, vocab))
    for tokens in np.ndindex(law.shape):
        text = (*prompt, *tokens)
        for position in range(length):
            end = len(prompt) + position
            seen[position, text[end - 2], text[end - 1]] += law[tokens]
            pairs[position, text[end - 1], text[end]] += law[tokens]
    np.testing.assert_allclose(marginals(chain, length), seen.reshape(length, -1), atol=1e-12)
    classes = np.tile(np.arange(vocab), (length, 1))
    for position in range(length - 1):
        found = pair_law(chain, position, classes)
        np.testing.assert_allclose(found, pairs[position + 1], atol=1e-12)


@pytest.mark.parametrize("name", ["order-2", "markov"])
@pytest.mark.parametrize("matching", [False, True])
def test_accepted_drafts_of_a_decoder_are_the_enumerated_ones(name, matching) -> None:
    scenario = find(Form.DECODE, name)
    chain, gamma = scenario.chain, scenario.gamma
    rule = CONTROLS["sample_and_match"].callable if matching else StagedVerifier()
    models = {side: _model(scenario, side).next_probs for side in ("target", "draft")}
    for context in range(chain.contexts):
        digits = np.unravel_index(context, (scenario.vocab_size,) * chain.order)
        request = Request(
            prompt=tuple(int(token) for token in digits),
            target_next=models["target"],
            draft_next=models["draft"],
            gamma=gamma,
            max_new_tokens=gamma + 1,
        )
        blocks = enumerate_draws(partial(StagedDecoder(verifier=rule).block, request, ()))
        law = np.zeros(gamma + 1)
        for block, probability in blocks.items():
            law[block.n_accepted] += probability
        found = accepted_pmf(chain, gamma, context=context, matching=matching)
        np.testing.assert_allclose(found, law, atol=1e-12)


def test_contexts_along_a_text_are_its_last_tokens(order_two) -> None:
    chain = order_two.chain
    tokens = np.array([[2, 0, 1, 1], [1, 2, 2, 0]])
    wanted = [[3, 2 + 0, 6, 1, 4], [3, 1, 5, 8, 6]]
    np.testing.assert_array_equal(chain.trail(chain.start, tokens), wanted)
    assert [chain.context(row) for row in tokens.tolist()] == [4, 6]


def test_step_functions_look_as_far_back_as_the_models(order_two) -> None:
    steps = step_functions(order_two.chain, Framework.NUMPY)
    for side, step in zip(("target", "draft"), steps, strict=True):
        model = _model(order_two, side)
        for text in ([2], [0, 2], [1, 2], [2, 1, 2], [1, 0, 0, 1]):
            np.testing.assert_array_equal(step(np.array(text)), model.next_probs(text))
    with pytest.raises(InvalidEmissionError, match="target_step was handed"):
        steps[0](np.array([3, 1]))
    assert prompt_of(order_two) == [2, 1, 0]


ALL = [s for form in (Form.VERIFY, Form.DECODE) for s in scenarios(form, "thorough")]


@pytest.mark.parametrize("scenario", ALL, ids=lambda s: f"{s.form}-{s.name}")
def test_rows_differ_by_position_or_context(scenario: Scenario) -> None:
    """Identical rows hide every off-by-one."""
    target = scenario.chain.target
    if scenario.form is Form.VERIFY:
        assert all(not np.array_equal(a, b) for a, b in itertools.pairwise(target))
        assert len(target) == 2 * scenario.gamma + 1
    else:
        assert len(target) >= max(scenario.length, scenario.gamma + 1)


def test_scenarios_do_not_depend_on_one_another() -> None:
    again = find.__wrapped__(Form.VERIFY, "mixed")
    np.testing.assert_array_equal(again.chain.draft, find(Form.VERIFY, "mixed").chain.draft)
    with pytest.raises(InvalidInputError, match="'nothing' is none of mixed"):
        find(Form.VERIFY, "nothing")
