"""Numpy, python and math under the tracer: every law known in closed form."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from random import random as bound_before
from typing import Any

import numpy as np
import pytest

from specverify.errors import UnsupportedRandomness
from specverify.exact import TracedGenerator, enumerate_law
from specverify.stats.goodness import pooled_chi_square

RNG = TracedGenerator()
PROBS = np.array([0.2, 0.5, 0.0, 0.3])
LAW = {0: 0.2, 1: 0.5, 3: 0.3}


def same_law(found: dict[Any, float], expected: dict[Any, float], tolerance: float = 1e-14) -> None:
    found = {outcome: mass for outcome, mass in found.items() if mass > 1e-15}
    assert found.keys() == expected.keys()
    for outcome, mass in expected.items():
        assert math.isclose(found[outcome], mass, abs_tol=tolerance)


# ruff: noqa: NPY002
CATEGORICAL: dict[str, Callable[[], Any]] = {
    "choice": lambda: int(RNG.choice(4, p=PROBS)),
    "legacy choice": lambda: np.random.choice(4, p=PROBS),
    "choice of items": lambda: RNG.choice(np.arange(4), p=PROBS),
    "multinomial": lambda: int(RNG.multinomial(1, PROBS).argmax()),
    "searchsorted": lambda: int(np.searchsorted(np.cumsum(PROBS), RNG.random(), side="right")),
    "array searchsorted": lambda: int(np.cumsum(PROBS).searchsorted(RNG.random())),
    "counted thresholds": lambda: int((np.cumsum(PROBS) <= RNG.random((1,))).sum()),
    "first above": lambda: int((np.cumsum(PROBS) > RNG.random()).argmax()),
    "mirrored": lambda: int(np.searchsorted(np.cumsum(PROBS), 1 - RNG.random(), side="right")),
    "exponential race": lambda: int(np.argmax(PROBS / RNG.exponential(size=4))),
    "race to the first": lambda: int(RNG.exponential(1 / np.maximum(PROBS, 1e-300)).argmin()),
    "gumbel": lambda: int(np.argmax(np.log(PROBS + 1e-300) + RNG.gumbel(size=4))),
    "hand-made gumbel": lambda: int(
        np.argmax(np.log(PROBS + 1e-300) - np.log(-np.log(RNG.random(4))))
    ),
    "weighted keys": lambda: int(np.argmax(RNG.random(4) ** (1 / np.maximum(PROBS, 1e-200)))),
    "python loop": lambda: next(
        index for index, edge in enumerate(np.cumsum(PROBS)) if index == 3 or _DRAWN() < edge
    ),
    "python choices": lambda: random.choices(range(4), weights=list(PROBS))[0],
}
_KEPT: list[Any] = []


def _DRAWN() -> Any:
    """One uniform a run, read again at each edge."""
    return _KEPT[0]


@pytest.mark.parametrize("name", [name for name in CATEGORICAL if name != "python loop"])
def test_ways_to_draw_a_category(name: str) -> None:
    same_law(dict(enumerate_law(CATEGORICAL[name]).probabilities), LAW)


def test_a_loop_over_edges_reads_one_uniform() -> None:
    def draw() -> int:
        _KEPT[:] = [RNG.random()]
        return int(CATEGORICAL["python loop"]())

    same_law(dict(enumerate_law(draw).probabilities), LAW)


COINS: dict[str, tuple[Callable[[], Any], float]] = {
    "uniform": (lambda: RNG.random() < 0.3, 0.3),
    "float": (lambda: float(RNG.random()) < 0.3, 0.3),
    "python": (lambda: random.random() < 0.3, 0.3),
    "bound before": (lambda: bound_before() < 0.3, 0.3),
    "legacy": (lambda: np.random.rand() < 0.3, 0.3),
    "numpy on the left": (lambda: np.float64(0.3) > RNG.random(), 0.3),
    "a fresh default_rng": (lambda: np.random.default_rng().random() < 0.3, 0.3),
    "scaled": (lambda: RNG.random() * 2.0 - 1.0 < -0.4, 0.3),
    "cross-multiplied": (lambda: RNG.random() * 0.5 < 0.15, 0.3),
    "log": (lambda: np.log(RNG.random()) < np.log(0.3), 0.3),
    "math.log": (lambda: math.log(random.random()) < math.log(0.3), 0.3),
    "one minus": (lambda: 1.0 - RNG.random() < 0.3, 0.3),
    "squared": (lambda: RNG.random() ** 2 < 0.09, 0.3),
    "reciprocal": (lambda: 1.0 / RNG.random() > 1 / 0.3, 0.3),
    "exponential": (lambda: RNG.exponential() > -math.log(0.3), 0.3),
    "exp of log": (lambda: np.exp(2 * np.log(RNG.random())) < 0.09, 0.3),
    "clipped": (lambda: np.minimum(RNG.random(), 0.5) < 0.3, 0.3),
    "uniform range": (lambda: RNG.uniform(-1, 1) < -0.4, 0.3),
    "floor": (lambda: int(RNG.random() * 10) < 3, 0.3),
    "integers": (lambda: RNG.integers(10) < 3, 0.3),
    "binomial": (lambda: RNG.binomial(1, 0.3) == 1, 0.3),
    "isinstance": (lambda: isinstance(RNG.random(), float) and RNG.random() < 0.3, 0.3),
    "itself mirrored": (lambda: np.argmax([(u := RNG.random()), 1 - u]) == 0, 0.5),
    "two uniforms": (lambda: RNG.random() < RNG.random(), 0.5),
    "a sum that cancels": (lambda: _minus_itself(), 1.0),
}


def _minus_itself() -> bool:
    u = RNG.random()
    return bool(u - u == 0.0)


@pytest.mark.parametrize("name", COINS)
def test_ways_to_flip_a_coin(name: str) -> None:
    flip, chance = COINS[name]
    law = enumerate_law(lambda: bool(flip()))
    assert math.isclose(law.probabilities[True], chance, abs_tol=1e-15)


def test_a_uniform_used_twice_keeps_its_correlation() -> None:
    def draw() -> tuple[bool, bool, bool]:
        u = RNG.random()
        return u < 0.3, 1 - u < 0.5, -math.log(u) < 0.25

    edge = math.exp(-0.25)
    same_law(
        dict(enumerate_law(draw).probabilities),
        {
            (True, False, False): 0.3,
            (False, False, False): 0.2,
            (False, True, False): edge - 0.5,
            (False, True, True): 1 - edge,
        },
    )


def test_a_rescaled_uniform_is_fresh() -> None:
    """Recycling: given u < 0.4, u / 0.4 is uniform again."""

    def draw() -> tuple[bool, bool]:
        u = RNG.random()
        accepted = bool(u < 0.4)
        rest = u / 0.4 if accepted else (u - 0.4) / 0.6
        return accepted, bool(rest < 0.25)

    same_law(
        dict(enumerate_law(draw).probabilities),
        {(True, True): 0.1, (True, False): 0.3, (False, True): 0.15, (False, False): 0.45},
    )


def test_a_race_of_unlike_keys_is_integrated() -> None:
    """P(U < E) = 1 - integral of exp(-u) from 0 to 1 ... = 1 - 1/e reversed."""
    law = enumerate_law(lambda: int(np.argmax([RNG.random(), RNG.exponential()])))
    assert math.isclose(law.probabilities[1], 1 - math.exp(-1), abs_tol=1e-13)
    assert law.slack < 1e-12


def test_guards_against_zero_in_gumbel_noise_are_followed() -> None:
    def draw() -> int:
        noise = -np.log(-np.log(RNG.random(3) + 1e-10) + 1e-10)
        return int(np.argmax(np.log([0.2, 0.3, 0.5]) + noise))

    same_law(dict(enumerate_law(draw).probabilities), {0: 0.2, 1: 0.3, 2: 0.5}, 1e-9)


def test_ranking_is_plackett_luce() -> None:
    def draw() -> Any:
        return np.argsort(RNG.exponential(size=3) / np.array([0.2, 0.3, 0.5]))[:2]

    found = enumerate_law(draw).probabilities
    assert math.isclose(found[2, 1], 0.5 * 0.3 / 0.5, abs_tol=1e-15)
    assert math.isclose(found[0, 2], 0.2 * 0.5 / 0.8, abs_tol=1e-15)


def _again() -> Any:
    u = RNG.random(3)
    return int(np.argmax(u)), bool(u[0] < 0.5)


REFUSED: dict[str, Callable[[], Any]] = {
    "sum of two": lambda: RNG.random() + RNG.random() < 1,
    "product": lambda: RNG.random() * RNG.random() < 0.3,
    "mean": lambda: RNG.random(3).mean() < 0.5,
    "normal": lambda: RNG.normal() < 0,
    "returned": lambda: RNG.random(),
    "formatted": lambda: f"{RNG.random():.3f}",
    "noise after a race": _again,
    "shared keys": lambda: int(np.argmax(np.repeat(RNG.random(1), 2) ** np.array([1.0, 2.0]))),
    "seeded inside": lambda: np.random.default_rng(0).random() < 0.5,
    "reseeded": lambda: np.random.seed(0),
    "RandomState": lambda: np.random.RandomState(0).rand() < 0.5,
    "a bit generator": lambda: np.random.Generator(np.random.PCG64(0)).random() < 0.5,
    "struct": lambda: math.fsum([RNG.random(), 0.1]) < 0.5,
    "rounded": lambda: round(RNG.random(), 1) < 0.5,
    "hashed": lambda: RNG.random() in {0.5},
    "remainder": lambda: (RNG.random() * 3) % 1 < 0.5,
    "attribute": lambda: RNG.random().is_integer(),
    "random probabilities": lambda: int(RNG.choice(2, p=[(u := RNG.random()), 1 - u])),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_understood_is_refused(name: str) -> None:
    with pytest.raises(UnsupportedRandomness):
        enumerate_law(REFUSED[name])


def test_the_law_agrees_with_real_draws() -> None:
    """200,000 real runs of the same code; chi-square at level 1e-6, and a wrong law fails it."""

    def draw(rng: Any) -> tuple[bool, int]:
        u = rng.random()
        if u < 0.35:
            return True, int(np.searchsorted([0.1, 0.2, 0.3], u))
        return False, int(rng.choice(3, p=[0.2, 0.3, 0.5]))

    law = dict(enumerate_law(lambda: draw(RNG)).probabilities)
    real, n = np.random.default_rng(20), 200_000
    counts = dict.fromkeys(law, 0)
    for _ in range(n):
        counts[draw(real)] += 1
    order = list(law)
    observed = np.array([counts[key] for key in order])
    assert pooled_chi_square(observed, np.array([law[key] for key in order])).p_value > 1e-6
    wrong = np.array([law[key] for key in reversed(order)])
    assert pooled_chi_square(observed, wrong).p_value < 1e-6
