"""TabularModel: rows, padding, steps and drafts."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from specverify.distributions import acceptance_rate
from specverify.errors import InvalidInputError
from specverify.models.tabular import TabularModel


@pytest.fixture
def model() -> TabularModel:
    return TabularModel.random(4, 2, np.random.default_rng(3))


def test_the_last_tokens_choose_the_row(model) -> None:
    np.testing.assert_array_equal(model.next_probs([3, 1, 2]), model.table[1, 2])
    np.testing.assert_array_equal(model.next_probs(torch.tensor([3, 1, 2])), model.table[1, 2])
    np.testing.assert_array_equal(model.next_probs(iter((3, 1, 2))), model.table[1, 2])


def test_short_contexts_are_padded_with_token_zero_on_the_left(model) -> None:
    np.testing.assert_array_equal(model.next_probs([2]), model.table[0, 2])
    np.testing.assert_array_equal(model.next_probs([]), model.table[0, 0])


def test_order_zero_ignores_the_context() -> None:
    model = TabularModel([0.25, 0.75])
    assert (model.order, model.vocab_size) == (0, 2)
    np.testing.assert_array_equal(model.next_probs([1, 1, 0]), [0.25, 0.75])
    np.testing.assert_array_equal(model.step("numpy")(np.array([], dtype=int)), [0.25, 0.75])


def test_steps_agree_and_hand_out_copies(model) -> None:
    context = torch.tensor([0, 3, 1])
    law = model.step()(context)
    assert law.dtype == torch.float64
    np.testing.assert_array_equal(law.numpy(), model.step("numpy")(context.numpy()))
    law.zero_()
    model.step("numpy")(context.numpy())[:] = 0
    np.testing.assert_array_equal(model.next_probs(context), model.step()(context).numpy())


def test_random_models_are_reproducible() -> None:
    first, again, other = (TabularModel.random(5, 1, np.random.default_rng(s)) for s in (1, 1, 2))
    np.testing.assert_array_equal(first.table, again.table)
    assert not np.array_equal(first.table, other.table)


def test_perturbed_goes_from_the_target_to_noise(model) -> None:
    def rng() -> np.random.Generator:
        return np.random.default_rng(0)

    np.testing.assert_array_equal(model.perturbed(rng(), 0.0).table, model.table)
    noise = model.perturbed(rng(), 1.0).table
    half = model.perturbed(rng(), 0.5).table
    np.testing.assert_allclose(
        1 - acceptance_rate(model.table, half),
        0.5 * (1 - acceptance_rate(model.table, noise)),
        atol=1e-12,
    )


@pytest.mark.parametrize("acceptance", [0.3, 0.5, 0.8, 0.95, 1.0])
def test_with_acceptance_hits_the_rate_in_every_row(acceptance) -> None:
    target = TabularModel.random(6, 2, np.random.default_rng(5), concentration=0.7)
    draft = target.with_acceptance(np.random.default_rng(1), acceptance)
    np.testing.assert_allclose(acceptance_rate(target.table, draft.table), acceptance, atol=1e-12)


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        (lambda: TabularModel(np.full((2, 3), 1 / 3)), r"table: shape \(2, 3\)"),
        (lambda: TabularModel(np.full((2, 2), 0.5), 2), "with order 2"),
        (lambda: TabularModel(np.full((2, 2), 0.6)), "does not sum to one"),
        (lambda: TabularModel(np.zeros(0)), "empty vocabulary"),
        (lambda: TabularModel(0.5), "is not"),
        (lambda: TabularModel.random(0, 1, np.random.default_rng(0)), "vocab_size"),
        (lambda: TabularModel.random(2, -1, np.random.default_rng(0)), "order"),
        (
            lambda: TabularModel.random(2, 1, np.random.default_rng(0), concentration=0.0),
            "concentration",
        ),
        (lambda: TabularModel([0.5, 0.5]).step("jax"), "framework"),
        (lambda: TabularModel([0.5, 0.5]).perturbed(np.random.default_rng(0), 1.5), "strength"),
        (
            lambda: TabularModel([0.5, 0.5]).with_acceptance(np.random.default_rng(0), 0.4),
            "no draft of this model is below 0.5",
        ),
        (
            lambda: TabularModel([0.5, 0.5]).with_acceptance(np.random.default_rng(0), -1),
            r"must lie in \[0, 1\]",
        ),
        (lambda: TabularModel(np.full((2, 2), 0.5)).next_probs([2]), r"got \[2\]"),
        (lambda: TabularModel(np.full((2, 2), 0.5)).next_probs([-1]), r"got \[-1\]"),
    ],
)
def test_refuses_bad_input(call, problem) -> None:
    with pytest.raises(InvalidInputError, match=problem):
        call()
