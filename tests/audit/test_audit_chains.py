"""Laws of chains against brute force and against the zoo's enumeration."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from specverify.audit.chains import Chain, accepted_pmf, marginals, pair_law, path_law
from specverify.audit.forms import Form
from specverify.audit.scenarios import Scenario, find, scenarios
from specverify.bugs.laws import block_law
from specverify.bugs.staged import StagedVerifier
from specverify.errors import InvalidInputError

MARKOV = find(Form.VERIFY, "markov")


def _brute(chain: Chain, length: int) -> np.ndarray:
    law = np.ones((chain.vocab_size,) * length)
    for path in np.ndindex(*law.shape):
        previous = chain.start
        for position, token in enumerate(path):
            law[path] *= chain.target[position, chain.context(previous), token]
            previous = token
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
    with pytest.raises(InvalidInputError, match="target: needs shape"):
        Chain(target=rows[0], draft=rows[0])


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
