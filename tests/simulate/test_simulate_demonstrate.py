"""Document A's demonstration: curves from theory, dots from accept tests."""

from __future__ import annotations

import numpy as np
import pytest

from specverify.errors import InvalidInputError
from specverify.simulate.demonstrate import demonstrate_speculative
from specverify.theory.expected_tokens import expected_accepted_tokens


def curve(**changes):
    return demonstrate_speculative(np.random.default_rng(0), **changes)


def distances(demo, tokens) -> np.ndarray:
    """Distance of the dots from ``tokens``, in their standard errors."""
    return np.abs(demo.simulated_tokens_per_pass - tokens) / demo.tokens_standard_error


def test_the_dots_lie_on_the_curve() -> None:
    demo = curve()
    assert distances(demo, demo.tokens_per_pass).max() < 5.5  # 40 dots, two-sided 1e-6 in all
    off = np.abs(demo.simulated_speedup - demo.speedup) / demo.speedup_standard_error
    np.testing.assert_allclose(off, distances(demo, demo.tokens_per_pass))


def test_the_curve_without_bonus_is_missed() -> None:
    """The negative control."""
    demo = curve()
    without = expected_accepted_tokens(demo.alphas[:, None], demo.gammas, bonus=False)
    assert distances(demo, without)[:, :2].min() > 5.5


def test_what_document_a_says_of_its_page() -> None:
    demo = curve(alphas=(0.9, 0.4))
    good, weak = demo.speedup.max(axis=1)
    assert (demo.c, demo.tokens_per_pass.shape) == (0.1, (2, 10))
    np.testing.assert_array_equal(demo.optimal_gamma, demo.speedup.argmax(axis=1) + 1)
    assert good > 3
    assert weak < 1.35
    assert curve(alphas=(0.4,), c=0.3).speedup.max() < 1.1


def test_certain_and_hopeless_drafts() -> None:
    demo = curve(alphas=(0.0, 1.0), max_gamma=3, rounds=10)
    np.testing.assert_array_equal(demo.simulated_tokens_per_pass, [[1, 1, 1], [2, 3, 4]])
    np.testing.assert_array_equal(demo.tokens_standard_error, 0)


def test_seeded() -> None:
    first, second = curve(), curve()
    np.testing.assert_array_equal(first.simulated_tokens_per_pass, second.simulated_tokens_per_pass)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"alphas": (0.5, 1.5)}, r"alphas: must lie in \[0, 1\], got 1.5"),
        ({"c": -0.1}, "c: must be finite and at least 0, got -0.1"),
        ({"max_gamma": 0}, "max_gamma: must be at least 1, got 0"),
        ({"rounds": 1}, "rounds: must be at least 2, got 1"),
    ],
)
def test_bad_arguments_are_named(changes, message) -> None:
    with pytest.raises(InvalidInputError, match=message):
        curve(**changes)
