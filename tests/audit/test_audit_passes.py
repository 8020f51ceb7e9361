"""Moments of the number of passes against enumeration."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from specverify.audit.passes import kept_chances, pass_moments


def _brute(chances: list[float], gamma: int, bonus: bool) -> tuple[float, float]:
    """Every sequence of kept and not kept; a bonus token is never a kept draft."""
    moments = np.zeros(2)
    for kept in itertools.product([True, False], repeat=len(chances)):
        probability, passes, accepted = 1.0, 0, 0
        for chance, keep in zip(chances, kept, strict=True):
            passes += accepted == 0
            if bonus and accepted == gamma:
                probability *= 0.0 if keep else 1.0
                accepted = 0
                continue
            probability *= chance if keep else 1 - chance
            accepted = accepted + 1 if keep else 0
            if not bonus and accepted == gamma:
                accepted = 0
        moments += probability * np.array([passes, passes**2])
    return float(moments[0]), float(moments[1] - moments[0] ** 2)


@pytest.mark.parametrize("bonus", [True, False])
@pytest.mark.parametrize("gamma", [1, 2, 4])
def test_moments_by_enumeration(gamma: int, bonus: bool) -> None:
    chances = [0.9, 0.5, 0.7, 1.0, 0.2, 0.8, 0.6]
    expected = _brute(chances, gamma, bonus)
    assert pass_moments(np.array(chances), gamma, bonus=bonus) == pytest.approx(expected)


def test_certain_acceptance_fills_every_block() -> None:
    assert pass_moments(np.ones(10), 4) == (2.0, 0.0)
    assert pass_moments(np.ones(8), 4, bonus=False) == (2.0, 0.0)
    assert pass_moments(np.zeros(5), 4) == (5.0, 0.0)


def test_kept_chances_by_hand() -> None:
    target, draft = np.array([0.5, 0.2]), np.array([0.25, 0.6])
    np.testing.assert_allclose(kept_chances(target, draft), [0.5, 1.0])
    np.testing.assert_allclose(kept_chances(target, draft, matching=True), draft)
