"""Tokens whose law is found only when somebody asks for it."""

from __future__ import annotations

from typing import Any

import pytest

from specverify.exact.law import enumerate_law
from specverify.exact.races import unread_winner
from specverify.exact.reals import exponential
from specverify.exact.tape import active_tape
from specverify.exact.tokens import UnreadToken


def _race(weights: list[float], noise: list[Any]) -> UnreadToken:
    keys = [-(e / w) for e, w in zip(noise, weights, strict=True)]
    return UnreadToken.deferred(lambda: unread_winner(keys), "race")


def test_a_deferred_race_has_the_law_of_the_race() -> None:
    law = enumerate_law(lambda: _race([1.0, 3.0], [exponential("e") for _ in range(2)]))
    assert law.probabilities == pytest.approx({0: 0.25, 1: 0.75})


def test_races_that_nobody_asks_about_are_not_run() -> None:
    # Three races over the same noise have no closed form together; one of them alone has.
    def pick() -> Any:
        noise = [exponential("e") for _ in range(3)]
        races = [_race([1.0, w, 2.0], noise) for w in (1.0, 2.0, 5.0)]
        return races[1]

    assert enumerate_law(pick).probabilities == pytest.approx({0: 0.2, 1: 0.4, 2: 0.4})


def test_two_deferred_races_over_the_same_noise_stay_coupled() -> None:
    def both() -> Any:
        noise = [exponential("e") for _ in range(2)]
        return _race([1.0, 3.0], noise), _race([1.0, 3.0], noise)

    assert enumerate_law(both).probabilities == pytest.approx({(0, 0): 0.25, (1, 1): 0.75})


def test_what_is_found_may_be_certain_or_known_already() -> None:
    def known() -> Any:
        other = UnreadToken((0.5, 0.5), "coin")
        value = other.read()
        same = UnreadToken.deferred(lambda: other, "the same")
        certain = UnreadToken.deferred(lambda: 7, "certain")
        return value, same, certain, int(certain)

    law = enumerate_law(known)
    assert law.probabilities == pytest.approx({(0, 0, 7, 7): 0.5, (1, 1, 7, 7): 0.5})


def test_a_token_and_its_deferred_twin_know_the_same() -> None:
    def twins() -> Any:
        token = UnreadToken((0.25, 0.75), "coin")
        twin = UnreadToken.deferred(lambda: token, "twin")
        assert twin.probs == (0.25, 0.75)
        assert active_tape() is not None
        return twin.read(), token.was_read, token.read()

    assert enumerate_law(twins).probabilities == pytest.approx(
        {(0, True, 0): 0.25, (1, True, 1): 0.75}
    )
