"""From a law of emitted tokens to certified bounds, a position and a verdict, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from specverify.exact.blocks import ExactCheck, judge
from specverify.exact.law import ExactLaw

ROWS = {(): [0.5, 0.5], (0,): [0.4, 0.6], (1,): [0.5, 0.5]}


def judged(tolerance: float) -> ExactCheck:
    """A tenth raises, a fifth is unexplored, a twentieth is no token, a hundredth misplaced.

    Continued by the target, 0 has mass 0.45 and 0, 1 has 0.06 + 0.35, where 0.3 are due.
    """
    law = ExactLaw(
        probabilities={(0,): 0.1, (1,): 0.2, (0, 1): 0.35, (9,): 0.05},
        paths=6,
        runs=6,
        unexplored_mass=0.2,
        exceptions={"E": 0.1},
        slack=0.01,
        seconds=0.0,
    )
    return judge(
        law,
        lambda tokens: np.array(ROWS[tokens]),
        length=2,
        valid=lambda tokens: all(0 <= token < 2 for token in tokens),
        tolerance=tolerance,
    )


def test_bounds_of_every_length() -> None:
    check = judged(1e-9)
    assert len(check.by_length) == 2
    assert check.by_length[0] == pytest.approx((0.14, 0.36))
    assert check.by_length[1] == pytest.approx((0.25, 0.47))
    assert check.tv == check.by_length[1]
    assert check.invalid_mass == pytest.approx(0.05)
    assert check.mean_emitted == pytest.approx((0.1 + 0.2 + 2 * 0.35) / 0.65)


@pytest.mark.parametrize(
    ("tolerance", "position", "lossless"),
    [(0.1, 0, False), (0.2, 1, False), (0.3, None, None), (0.48, None, True)],
)
def test_what_is_proved_beyond_rounding(tolerance, position, lossless) -> None:
    check = judged(tolerance)
    assert (check.position, check.lossless) == (position, lossless)
