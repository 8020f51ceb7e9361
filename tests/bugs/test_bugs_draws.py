"""Enumeration of draws against laws worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from specverify.bugs.draws import SampledDraws, enumerate_draws, invert

LAW = np.array([0.5, 0.0, 0.3, 0.2])


def test_independent_draws_multiply() -> None:
    law = enumerate_draws(lambda draws: (draws.token(LAW), draws.uniform() < 0.25))
    assert law[(0, True)] == pytest.approx(0.125)
    assert law[(3, False)] == pytest.approx(0.15)
    assert len(law) == 6
    assert sum(law.values()) == pytest.approx(1, abs=1e-15)


def test_a_uniform_used_twice_keeps_its_correlation() -> None:
    def twice(draws):
        uniform = draws.uniform()
        return uniform < 0.7, uniform < 0.4

    law = enumerate_draws(twice)
    assert law == pytest.approx({(True, True): 0.4, (True, False): 0.3, (False, False): 0.3})


def test_a_uniform_is_never_below_0_and_always_below_1() -> None:
    assert enumerate_draws(lambda draws: draws.uniform() < 0.0) == {False: 1.0}
    assert enumerate_draws(lambda draws: draws.uniform() < 1.0) == {True: 1.0}


def test_inversion_gives_the_law() -> None:
    law = enumerate_draws(lambda draws: invert(draws.uniform(), LAW))
    assert law == pytest.approx({0: 0.5, 2: 0.3, 3: 0.2})


def test_inversion_never_ends_on_an_impossible_token() -> None:
    assert invert(1 - 2**-53, np.array([0.6, 0.4 - 1e-16, 0.0])) == 1


def test_sampled_draws_take_every_kind_from_the_generator() -> None:
    draws = SampledDraws(np.random.default_rng(5))
    again = SampledDraws(np.random.default_rng(5))
    first = [draws.uniform(), draws.token(LAW), draws.race(LAW)]
    assert first == [again.uniform(), again.token(LAW), again.race(LAW)]
    assert {draws.race(LAW) for _ in range(200)} == {0, 2, 3}
