"""Enumeration itself: masses, budgets, bounds, exceptions, and runs that cannot be trusted."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from specverify.errors import InvalidInputError, UnsupportedRandomness
from specverify.exact import ExactLaw, ReplayDivergence, TracedGenerator, enumerate_law, tv_bounds

RNG = TracedGenerator()


def geometric() -> int:
    """Number of heads before the first tail, at most 20."""
    for heads in range(20):
        if RNG.random() >= 0.5:
            return heads
    return 20


def test_a_constant_is_one_path() -> None:
    law = enumerate_law(lambda: [1, (2, 3)])
    assert law.probabilities == {(1, (2, 3)): 1.0}
    assert (law.paths, law.runs, law.unexplored_mass, law.complete) == (1, 1, 0.0, True)


def test_masses_of_a_hand_enumerable_law() -> None:
    law = enumerate_law(geometric)
    expected = {heads: 0.5 ** (heads + 1) for heads in range(20)} | {20: 0.5**20}
    assert law.probabilities == expected
    assert law.paths == 21


@pytest.mark.parametrize("order", ["depth", "best"])
def test_what_the_budget_leaves_out_is_accounted_for(order: str) -> None:
    law = enumerate_law(geometric, max_paths=5, order=order)  # type: ignore[arg-type]
    assert law.paths == 5
    assert not law.complete
    assert math.isclose(sum(law.probabilities.values()) + law.unexplored_mass, 1.0)


def test_best_first_leaves_the_least_mass() -> None:
    # Depth first follows the less likely branch down; best first takes the heads in order.
    def lopsided() -> int:
        return sum(int(RNG.choice(4, p=[0.7, 0.1, 0.1, 0.1])) * 4**place for place in range(4))

    best = enumerate_law(lopsided, max_paths=20, order="best")
    depth = enumerate_law(lopsided, max_paths=20, order="depth")
    assert best.unexplored_mass < depth.unexplored_mass


def test_small_branches_can_be_left_out() -> None:
    law = enumerate_law(geometric, min_mass=2**-5)
    assert 0 < law.unexplored_mass < 0.1
    assert law.paths < 21
    assert sum(law.probabilities.values()) + law.unexplored_mass == 1.0


def test_bounds_hold_for_every_budget_and_meet_at_the_end() -> None:
    target = {heads: 0.6 * 0.4**heads for heads in range(20)} | {20: 0.4**20}
    exact = 0.5 * math.fsum(
        abs(mass - target[heads]) for heads, mass in enumerate_law(geometric).probabilities.items()
    )
    for max_paths in (1, 3, 6, 12, 100):
        low, high = tv_bounds(enumerate_law(geometric, max_paths=max_paths, order="best"), target)
        assert low <= exact + 1e-15 <= high + 2e-15
    assert math.isclose(low, exact, abs_tol=1e-15)
    assert math.isclose(high, exact, abs_tol=1e-15)


def test_an_exception_is_an_outcome_with_a_mass() -> None:
    def fragile() -> int:
        if RNG.random() < 0.25:
            raise ValueError("no residual")
        return 1

    law = enumerate_law(fragile)
    assert law.exceptions == {"ValueError: no residual": 0.25}
    assert law.probabilities == {1: 0.75}
    assert tv_bounds(law, {1: 1.0}).low == 0.25


def test_bounds_by_hand() -> None:
    """Half too much on one outcome, a tenth raised, a fifth unexplored, a hundredth misplaced."""
    law = ExactLaw(
        probabilities={"a": 0.6, "b": 0.1},
        paths=3,
        runs=3,
        unexplored_mass=0.2,
        exceptions={"E": 0.06, "F": 0.04},
        slack=0.01,
        seconds=0.0,
    )
    assert law.exception_mass == pytest.approx(0.1)
    assert not law.complete
    assert tv_bounds(law, {"a": 0.1, "b": 0.9}) == pytest.approx((0.59, 0.81))
    assert tv_bounds(law, {"c": 1.0}) == pytest.approx((0.79, 1.0))
    together = law.map(lambda outcome: "one")
    assert together.probabilities == {"one": pytest.approx(0.7)}
    assert tv_bounds(together, {"one": 1.0}) == pytest.approx((0.09, 0.31))


def test_hidden_state_is_noticed() -> None:
    calls = iter(range(1000))
    with pytest.raises(ReplayDivergence):
        enumerate_law(lambda: next(calls))


def test_state_that_changes_the_choices_is_noticed() -> None:
    chances = iter(np.linspace(0.1, 0.9, 1000))
    with pytest.raises(ReplayDivergence):
        enumerate_law(lambda: bool(RNG.random() < next(chances)))


def test_a_generator_built_before_is_noticed() -> None:
    private = np.random.default_rng(0)
    with pytest.raises((UnsupportedRandomness, ReplayDivergence)):
        enumerate_law(lambda: int(private.integers(2)))


class Sampler:
    """Keeps a generator of its own."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(0)

    def draw(self) -> bool:
        return bool(self.rng.random() < 0.999)


def test_a_generator_that_an_object_keeps_is_noticed() -> None:
    sampler = Sampler()
    with pytest.raises(UnsupportedRandomness, match="rng"):
        enumerate_law(sampler.draw, check_twice=0)
    with pytest.raises(UnsupportedRandomness, match="rng"):
        enumerate_law(lambda: sampler.draw(), check_twice=0)


def test_a_private_python_generator_is_noticed() -> None:
    private = random.Random(0)
    with pytest.raises((UnsupportedRandomness, ReplayDivergence)):
        enumerate_law(lambda: private.random() < 0.5, check_twice=0)


def test_a_swallowed_refusal_is_remembered() -> None:
    def careless() -> int:
        try:
            return int(RNG.normal() > 0)
        except Exception:
            return 0

    with pytest.raises(UnsupportedRandomness, match="normal"):
        enumerate_law(careless)


def test_a_refusal_names_operation_file_and_line() -> None:
    def noisy() -> bool:
        return bool(np.random.normal() > 0)  # noqa: NPY002

    with pytest.raises(UnsupportedRandomness) as caught:
        enumerate_law(noisy)
    assert caught.value.operation == "numpy.random.normal"
    line = noisy.__code__.co_firstlineno + 1
    assert caught.value.location == f"{__file__}:{line}"


def test_everything_is_put_back() -> None:
    before = (np.random.random, random.random, math.log, np.random.default_rng)
    enumerate_law(geometric)
    with pytest.raises(UnsupportedRandomness):
        enumerate_law(lambda: RNG.normal())
    assert (np.random.random, random.random, math.log, np.random.default_rng) == before
    assert "float" not in globals()


def test_an_unknown_order_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="order"):
        enumerate_law(geometric, order="breadth")  # type: ignore[arg-type]


def test_the_image_of_a_law() -> None:
    law = enumerate_law(geometric).map(lambda heads: heads % 2)
    assert math.isclose(law.probabilities[0], 2 / 3, abs_tol=1e-6)
