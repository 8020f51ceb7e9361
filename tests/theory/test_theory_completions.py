"""Whole completions: the chain rule, and the speculative loop's law against it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specverify.distributions import residual_distribution
from specverify.errors import InvalidInputError
from specverify.theory.block_law import context_length_pmf
from specverify.theory.completion_law import completion_law, completion_law_with_eos
from specverify.theory.decode_law import decode_law
from specverify.theory.emitted_length import emitted_length_pmf
from specverify.theory.stopped_decode import stopped_decode_law


def tabular(seed: int, vocab_size: int, *, order: int = 2):
    """Rows that depend on the last ``order`` tokens, some entries zero."""

    def next_probs(tokens):
        rng = np.random.default_rng([seed, *tokens[-order:]])
        weights = rng.dirichlet(np.ones(vocab_size))
        weights[rng.integers(vocab_size)] = 0
        return weights / weights.sum()

    return next_probs


def test_completion_law_multiplies_rows() -> None:
    model = tabular(0, 3)
    law = completion_law(model, [1, 2], 3, 3)
    assert law.shape == (3, 3, 3)
    assert law.sum() == pytest.approx(1, abs=1e-12)
    for a, b, c in itertools.product(range(3), repeat=3):
        product = model((1, 2))[a] * model((1, 2, a))[b] * model((1, 2, a, b))[c]
        assert law[a, b, c] == pytest.approx(product, abs=1e-15)


def test_impossible_contexts_are_never_asked_for() -> None:
    def next_probs(tokens):
        assert 1 not in tokens, "token 1 has probability 0"
        return np.array([1.0, 0.0])

    assert completion_law(next_probs, [], 4, 2)[0, 0, 0, 0] == 1


@given(st.integers(0, 10**6), st.integers(1, 4))
def test_eos_law_gathers_what_follows_the_end(seed, length) -> None:
    model = tabular(seed, 3)
    full = completion_law(model, [0], length, 3)
    law = completion_law_with_eos(model, [0], length, 3, eos_token_id=2)
    assert sum(law.values()) == pytest.approx(1, abs=1e-12)
    for tokens, mass in law.items():
        assert 2 not in tokens[:-1]
        assert len(tokens) == length or tokens[-1] == 2
        assert mass == pytest.approx(full[tokens].sum(), abs=1e-12)


@settings(max_examples=40)
@given(
    seed=st.integers(0, 10**6),
    vocab_size=st.integers(2, 3),
    gamma=st.integers(1, 3),
    length=st.integers(1, 4),
    bonus=st.booleans(),
)
def test_the_speculative_loop_emits_the_targets_law(seed, vocab_size, gamma, length, bonus) -> None:
    target, draft = tabular(seed, vocab_size), tabular(seed + 1, vocab_size, order=1)
    law = decode_law(
        target, draft, gamma, length, prompt=[0, 1], vocab_size=vocab_size, bonus=bonus
    )
    expected = completion_law(target, [0, 1], length, vocab_size)
    np.testing.assert_allclose(law.completions, expected, atol=1e-12)
    assert law.passes.sum() == pytest.approx(1, abs=1e-12)


def test_a_biased_loop_would_be_seen(monkeypatch) -> None:
    """The negative control: corrections from the target instead of the residual."""

    def biased_block(target, draft, gamma, *, bonus):
        law = {}
        for x in range(3):
            p, q = target(()), draft(())
            accepted = min(p[x], q[x])
            for y in range(3):
                law[(x, y)] = law.get((x, y), 0.0) + accepted * target((x,))[y]
            law[(x,)] = law.get((x,), 0.0) + (1 - np.minimum(p, q).sum()) * p[x]
        return law

    target, draft = tabular(5, 3), tabular(6, 3)
    assert np.abs(residual_distribution(target((0,)), draft((0,))) - target((0,))).max() > 0.01
    monkeypatch.setattr("specverify.theory.decode_law.enumerate_block", biased_block)
    law = decode_law(target, draft, 1, 3, prompt=[0], vocab_size=3)
    assert law.completions.sum() == pytest.approx(1)
    assert np.abs(law.completions - completion_law(target, [0], 3, 3)).max() > 1e-3


@pytest.mark.parametrize("bonus", [True, False])
def test_passes_of_a_context_free_pair_are_the_stopped_law(bonus) -> None:
    target, draft = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.3, 0.5])
    law = decode_law(
        lambda tokens: target, lambda tokens: draft, 2, 5, prompt=[], vocab_size=3, bonus=bonus
    )
    rounds = stopped_decode_law(emitted_length_pmf(0.7, 2, bonus=bonus), 5).rounds_pmf
    np.testing.assert_allclose(law.passes[: len(rounds)], rounds, atol=1e-12)


def test_a_draft_that_equals_the_target_in_every_context_is_kept_in_every_pass() -> None:
    """Rows change with each token: six of them come in pairs."""
    rows = np.random.default_rng(4).dirichlet(np.ones(2), size=8)
    law = decode_law(*[lambda tokens: rows[len(tokens)]] * 2, 1, 6, prompt=[0], vocab_size=2)
    np.testing.assert_allclose(law.passes, np.eye(7)[3], atol=1e-12)


def test_the_first_pass_has_the_length_law_of_its_context() -> None:
    target, draft = tabular(3, 3), tabular(4, 3)
    law = decode_law(target, draft, 3, 4, prompt=[1], vocab_size=3)
    pmf = context_length_pmf(target, draft, [1], 3, vocab_size=3)
    assert law.passes[1] == pytest.approx(pmf[3], abs=1e-12)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: completion_law(tabular(0, 2), [], 0, 2), "length: must be at least 1, got 0"),
        (lambda: completion_law(tabular(0, 2), [], 3, 0), "vocab_size: must be at least 1"),
        (lambda: completion_law(tabular(0, 2), [], 40, 2), "length: 2.40 outcomes are too many"),
        (lambda: completion_law(lambda t: [0.5, 0.6], [], 1, 2), "next_probs: a row does not sum"),
        (
            lambda: completion_law_with_eos(tabular(0, 2), [], 2, 2, eos_token_id=2),
            r"eos_token_id: not in \[0, 2\), got 2",
        ),
        (
            lambda: decode_law(tabular(0, 2), tabular(1, 2), 0, 2, prompt=[], vocab_size=2),
            "gamma: must be at least 1, got 0",
        ),
    ],
)
def test_bad_arguments_are_named(call, message) -> None:
    with pytest.raises(InvalidInputError, match=message):
        call()
