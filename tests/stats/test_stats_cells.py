"""Cells are fixed by the law alone, filled as promised, and keep impossible tokens apart."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specverify.errors import InvalidInputError
from specverify.stats.cells import IMPOSSIBLE, cell_sums, pool_cells


@st.composite
def laws(draw):
    weights = draw(st.lists(st.integers(0, 1000), min_size=1, max_size=30))
    weights[draw(st.integers(0, len(weights) - 1))] += 1
    return np.array(weights, dtype=float) / sum(weights)


@given(laws(), st.integers(0, 5000), st.sampled_from([1.0, 10.0]), st.sampled_from([None, 1, 4]))
def test_every_cell_expects_enough(law, n, least, most) -> None:
    cells = pool_cells(law, n, min_expected=least, max_cells=most)
    mass = cell_sums(law, cells)
    assert mass.sum() == pytest.approx(1)
    np.testing.assert_array_equal(cells == IMPOSSIBLE, law == 0)
    assert set(cells[law > 0]) == set(range(len(mass)))
    if len(mass) > 1:
        assert (n * mass).min() >= least * (1 - 1e-9)
    if most is not None:
        assert len(mass) <= most


@given(laws(), st.integers(1, 5000))
def test_it_is_the_greedy_merge(law, n) -> None:
    expected, cell, mass = np.full(len(law), IMPOSSIBLE), 0, 0.0
    for token in np.argsort(-law, kind="stable"):
        if law[token] == 0:
            continue
        expected[token] = cell
        mass += law[token]
        if mass >= 10 / n * (1 - 1e-9):
            cell, mass = cell + 1, 0.0
    if mass > 0 and cell > 0:
        expected[expected == cell] = cell - 1
    np.testing.assert_array_equal(pool_cells(law, n), expected)


def test_edges() -> None:
    even = np.full(4, 0.25)
    np.testing.assert_array_equal(pool_cells(even, 0), [0, 0, 0, 0])
    np.testing.assert_array_equal(pool_cells(even, 39), [0, 0, 1, 1])
    np.testing.assert_array_equal(pool_cells(even, 40), [0, 1, 2, 3])
    np.testing.assert_array_equal(pool_cells(np.array([0.0, 1.0]), 100), [IMPOSSIBLE, 0])
    assert pool_cells(np.full(50257, 1 / 50257), 10**6, max_cells=128).max() in (126, 127)


@pytest.mark.parametrize(
    ("kwargs", "argument"),
    [
        ({"probs": np.array([0.5, 0.6])}, "probs"),
        ({"probs": np.full((2, 2), 0.5)}, "probs"),
        ({"n": -1}, "n"),
        ({"min_expected": 0.0}, "min_expected"),
        ({"max_cells": 0}, "max_cells"),
    ],
)
def test_refusals(kwargs, argument) -> None:
    with pytest.raises(InvalidInputError, match=rf"^{argument}:"):
        pool_cells(**{"probs": np.array([0.5, 0.5]), "n": 10, **kwargs})
