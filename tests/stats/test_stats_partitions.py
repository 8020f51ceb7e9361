"""Partitions cut the possible tokens along an order into cells of about equal mass."""

from __future__ import annotations

import numpy as np
import pytest

from specverify.stats.cells import IMPOSSIBLE, cell_sums
from specverify.stats.partitions import standard_partitions
from specverify.stats.synthetic import zipf_pair


@pytest.mark.parametrize("size", [2, 8, 128, 4096])
@pytest.mark.parametrize("with_draft", [True, False])
def test_masses_and_cells_agree(size, with_draft) -> None:
    target, draft = zipf_pair(size, np.random.default_rng(size), alpha=0.9)
    target = np.where(np.arange(size) % 5 == 3, 0.0, target)
    target /= target.sum()
    parts = standard_partitions(target, draft if with_draft else None)
    assert parts
    for part in parts:
        cells = part.cells(np.arange(size))
        np.testing.assert_array_equal(cells == IMPOSSIBLE, target == 0)
        np.testing.assert_allclose(cell_sums(target, cells), part.probs, rtol=1e-9)
        assert part.probs.min() > 0


def test_order_and_equal_masses() -> None:
    target, draft = zipf_pair(4096, np.random.default_rng(1))
    parts = {part.name: part for part in standard_partitions(target, draft)}
    tokens = np.arange(4096)
    sign = parts["target above draft"].cells(tokens)
    np.testing.assert_array_equal(sign == 0, target > draft)
    ratio = parts["target/draft"].cells(tokens)
    lowest = [np.log(target / draft)[ratio == cell].min() for cell in range(16)]
    assert np.all(np.diff(lowest) < 0)
    assert parts["rank/128"].probs.max() <= max(target.max(), 1 / 128) + 1 / 64
    heavy = np.flatnonzero(target > 1 / 128)
    assert len(np.unique(parts["rank/128"].cells(heavy))) == len(heavy)


def test_ties_keep_tokens_apart_and_tiny_ones_alive() -> None:
    flat = standard_partitions(np.full(5000, 1 / 5000), None)
    assert [len(part.probs) for part in flat] == [16, 16, 128, 1024]
    law = np.array([1.0, 1e-40, 1e-300])
    (part,) = standard_partitions(law, None)
    np.testing.assert_array_equal(part.cells(np.arange(3)), [0, 1, 2])
    np.testing.assert_array_equal(part.probs, law)


@pytest.mark.parametrize("size", [20, 1000, 50_000])
def test_ids_are_cut_in_their_own_order(size) -> None:
    law = np.random.default_rng(size).dirichlet(np.full(size, 0.2))
    law[::7] = 0.0
    law /= law.sum()
    (part,) = [part for part in standard_partitions(law, None) if part.name == "id"]
    cells = part.cells(np.arange(size))
    np.testing.assert_array_equal(cells == IMPOSSIBLE, law == 0)
    assert np.all(np.diff(cells[law > 0]) >= 0)
    np.testing.assert_allclose(cell_sums(law, cells), part.probs, rtol=1e-9)
    assert part.probs.max() <= 1 / 16 + law.max() + 0.01


def test_nothing_to_cut() -> None:
    assert standard_partitions(np.array([1.0]), np.array([1.0])) == []
