"""Cells of tokens: as they are defined, whatever way they are worked out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from specverify.audit.cells import token_cells


@st.composite
def weighted(draw: st.DrawFn) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Rows of whole weights, so that ties and zeros are common."""
    size = draw(st.integers(2, 24))
    rows = [
        np.array(draw(st.lists(st.integers(0, 6), min_size=size, max_size=size)), dtype=float)
        for _ in range(2)
    ]
    for row in rows:
        row[draw(st.integers(0, size - 1))] += 1.0
    return rows[0] / rows[0].sum(), rows[1] / rows[1].sum()


@given(weighted(), st.floats(1, 1e5), st.integers(2, 12))
def test_the_likeliest_stand_alone_and_the_rest_lies_in_the_order_of_ratios(
    rows: tuple[NDArray[np.float64], NDArray[np.float64]], n: float, most: int
) -> None:
    target, draft = rows
    cells = token_cells(target, draft, n, max_cells=most)
    assert sorted(set(cells.tolist())) == list(range(cells.max() + 1))
    assert cells.max() < most
    # By the definition: a stable sort of all of them.
    order = np.argsort(-target, kind="stable")
    first = order[: most if len(order) <= most else most // 2]
    alone = [int(token) for token in first if n * target[token] >= 10.0]
    assert cells[alone].tolist() == list(range(len(alone)))
    rest = np.array([token for token in range(len(target)) if token not in alone], dtype=int)
    ratios = target[rest] / (target[rest] + draft[rest] + 1e-300)
    assert (np.diff(cells[rest][np.argsort(ratios, kind="stable")]) >= 0).all()


def test_of_equal_ones_the_first_stand_alone() -> None:
    law = np.full(50, 0.02)
    assert token_cells(law, law, 1e4, max_cells=10)[:5].tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("n", [1.0, 100.0, 1e6])
def test_cells_are_as_many_as_the_planned_sample_allows(n: float) -> None:
    law = np.random.default_rng(0).dirichlet(np.full(1000, 0.3))
    cells = token_cells(law, law, n)
    expected = n * np.bincount(cells, weights=law)
    assert len(expected) == 1 or expected.min() >= 10.0 * 0.9
