"""Hand-computed values, numpy and torch alike, and refusals."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from specverify.distributions import (
    acceptance_probabilities,
    acceptance_rate,
    check_distribution,
    one_hot,
    residual_distribution,
    total_variation,
)
from specverify.errors import InvalidInputError

TARGET = [0.5, 0.3, 0.15, 0.05]
DRAFT = [0.4, 0.4, 0.15, 0.05]


@pytest.fixture(params=["numpy", "torch"])
def array(request):
    if request.param == "numpy":
        return lambda values: np.asarray(values, dtype=np.float64)
    return lambda values: torch.tensor(values, dtype=torch.float64)


def test_hand_computed_values(array) -> None:
    target, draft = array(TARGET), array(DRAFT)
    assert float(acceptance_rate(target, draft)) == pytest.approx(0.9)
    assert float(total_variation(target, draft)) == pytest.approx(0.1)
    np.testing.assert_allclose(residual_distribution(target, draft), [1, 0, 0, 0], atol=1e-15)
    np.testing.assert_allclose(acceptance_probabilities(target, draft), [1, 0.75, 1, 1])


def test_the_kind_of_array_is_kept(array) -> None:
    target = array(TARGET)
    assert type(residual_distribution(target, array(DRAFT))) is type(target)
    assert type(total_variation(target, array(DRAFT))) is type(target) or np.isscalar(
        total_variation(target, array(DRAFT))
    )


def test_residual_is_the_target_where_the_two_coincide(array) -> None:
    rows = array([TARGET, TARGET])
    drafts = array([TARGET, DRAFT])
    np.testing.assert_allclose(residual_distribution(rows, drafts), [TARGET, [1, 0, 0, 0]])


def test_never_drafted_tokens_count_as_accepted(array) -> None:
    probabilities = acceptance_probabilities(array([0.5, 0.5, 0.0]), array([0.0, 0.5, 0.5]))
    np.testing.assert_allclose(probabilities, [1, 1, 0])


def test_one_hot(array) -> None:
    tokens = np.array([2, 0])
    np.testing.assert_array_equal(one_hot(tokens, 3), [[0, 0, 1], [1, 0, 0]])
    np.testing.assert_array_equal(one_hot(torch.tensor(1), 3), [0, 1, 0])


@pytest.mark.parametrize("function", [total_variation, acceptance_rate, residual_distribution])
def test_refuses_unequal_shapes(function, array) -> None:
    with pytest.raises(InvalidInputError, match=r"draft_probs: shape \(3,\)"):
        function(array([0.5, 0.5]), array([0.2, 0.3, 0.5]))
    with pytest.raises(InvalidInputError, match="empty vocabulary"):
        function(array([]), array([]))


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ([], "empty vocabulary"),
        ([0.5, 0.6], "off by 0.1"),
        ([1.5, -0.5], "negative entry, -0.5"),
        ([float("nan"), 1.0], "NaN"),
        ([float("inf"), 1.0], "infinite"),
    ],
)
def test_refuses_what_is_not_a_distribution(array, values, problem) -> None:
    with pytest.raises(InvalidInputError, match=problem):
        check_distribution("target_probs", array(values))
    check_distribution("target_probs", array([TARGET, DRAFT]))


def test_refuses_integers() -> None:
    with pytest.raises(InvalidInputError, match="floating dtype, got int64"):
        check_distribution("target_probs", np.array([1, 0]))
