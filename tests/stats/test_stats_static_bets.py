"""How wealth is shared among known laws: a share a distinct law, more for faint and gross ones."""

from __future__ import annotations

import numpy as np
import pytest

from specverify.stats.static_bets import DILUTIONS, named_bets

LAW = np.array([0.4, 0.3, 0.2, 0.1])
NEAR = np.array([0.38, 0.32, 0.2, 0.1])
FAR = np.array([0.1, 0.3, 0.2, 0.4])
GROSS = np.array([0.0, 0.0, 0.0, 1.0])


def shares(**laws: np.ndarray) -> dict[str, float]:
    bets = named_bets(LAW, laws)
    owned = np.bincount(bets.owners, weights=bets.weights, minlength=len(laws))
    return dict(zip(laws, owned.tolist(), strict=True))


def test_a_gross_law_has_two_shares_and_a_faint_one_half_as_much_again() -> None:
    found = shares(near=NEAR, far=FAR)
    assert found == pytest.approx({"near": 1.5 / 2.5, "far": 1 / 2.5})
    found = shares(near=NEAR, far=FAR, gross=GROSS)
    assert found == pytest.approx({"near": 1.5 / 4.5, "far": 1 / 4.5, "gross": 2 / 4.5})


def test_twins_divide_one_share() -> None:
    found = shares(near=NEAR, far=FAR, twin=FAR.copy())
    assert found == pytest.approx({"near": 1.5 / 2.5, "far": 0.5 / 2.5, "twin": 0.5 / 2.5})


def test_dilutions_divide_a_laws_share() -> None:
    bets = named_bets(LAW, {"near": NEAR})
    np.testing.assert_allclose(bets.weights, [share for _, share in DILUTIONS])
    assert named_bets(LAW, {}).weights.shape == (0,)


def test_every_bet_is_fair() -> None:
    """The expected factor under the law is one, whatever the alternative."""
    bets = named_bets(LAW, {"near": NEAR, "far": FAR, "gross": GROSS})
    with np.errstate(divide="ignore"):
        factors = np.exp(bets.log_factors(np.arange(4)))
    np.testing.assert_allclose(LAW @ factors, 1.0, atol=1e-12)
