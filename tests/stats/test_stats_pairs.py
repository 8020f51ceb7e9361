"""Pairs: independent tokens pass; one uniform for two tokens does not, with right marginals."""

from __future__ import annotations

import numpy as np
import pytest

from specverify.errors import InvalidInputError
from specverify.stats.goodness import pooled_chi_square
from specverify.stats.pairs import independence_test, joint_test

LAW = np.array([0.4, 0.25, 0.2, 0.1, 0.05, 0.0])


def pair_counts(rng, n, *, same_uniform):
    u = rng.random((2, n))
    if same_uniform:
        u[1] = u[0]
    tokens = np.searchsorted(np.cumsum(LAW), u, side="right")
    table = np.zeros((6, 6), dtype=int)
    np.add.at(table, (tokens[0], tokens[1]), 1)
    return table


@pytest.mark.parametrize("same_uniform", [False, True])
def test_reused_uniform(same_uniform) -> None:
    table = pair_counts(np.random.default_rng(0), 2000, same_uniform=same_uniform)
    assert pooled_chi_square(table.sum(axis=0), LAW).p_value > 1e-6
    assert pooled_chi_square(table.sum(axis=1), LAW).p_value > 1e-6
    for test in (joint_test(table, np.outer(LAW, LAW)), independence_test(table, LAW, LAW)):
        assert (test.p_value < 1e-6) is same_uniform
        assert test.violations == 0


def test_impossible_pairs_are_violations() -> None:
    table = pair_counts(np.random.default_rng(1), 500, same_uniform=False)
    table[5, 0] += 2
    assert independence_test(table, LAW, LAW).violations == 2
    assert joint_test(table, np.outer(LAW, LAW)).violations == 2


def test_large_vocabularies_are_pooled_before_pairing() -> None:
    law = np.full(300, 1 / 300)
    table = np.random.default_rng(2).multinomial(5000, np.full(90_000, 1 / 90_000))
    test = independence_test(table.reshape(300, 300), law, law)
    assert test.cells <= 256
    assert test.p_value > 1e-6


def test_refusals() -> None:
    with pytest.raises(InvalidInputError, match=r"^counts"):
        joint_test(np.zeros((2, 3)), np.full((2, 2), 0.25))
    with pytest.raises(InvalidInputError, match=r"^pair_counts"):
        independence_test(np.zeros((2, 3)), [0.5, 0.5], [0.5, 0.5])
