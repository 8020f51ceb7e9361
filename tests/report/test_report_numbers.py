"""Numbers read the same everywhere, and nothing small is shown as zero."""

from __future__ import annotations

import pytest

from specverify.report.numbers import count, decimal, interval, probability, scalar
from specverify.results import Interval


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), (0.0, "0.000"), (0.25, "0.250"), (1e-6, "0.000"), (-0.5, "-0.500")],
)
def test_decimal(value: float | None, text: str) -> None:
    assert decimal(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), (0.0, "<1e-300"), (1.0, "1"), (0.04321, "0.0432"), (3.14e-120, "3.1e-120")],
)
def test_probability(value: float | None, text: str) -> None:
    assert probability(value) == text


def test_count() -> None:
    assert [count(None), count(0), count(20000)] == ["-", "-", "20,000"]


def test_interval_shows_what_is_known() -> None:
    assert interval(None) == interval(Interval()) == "-"
    assert interval(Interval(estimate=0.1)) == "0.100"
    assert interval(Interval(high=0.02)) == "<= 0.020"
    assert interval(Interval(low=0.0, high=0.02)) == "[0.000, 0.020]"
    assert interval(Interval(estimate=3.21e-4, low=3.21e-4, high=3.21e-4)) == "0.000321"
    assert interval(Interval(low=2.22e-16, high=2.22e-16)) == "2.22e-16"
    assert interval(Interval(estimate=0.0, low=0.0, high=0.0)) == "0"
    assert interval(Interval(estimate=0.1, low=0.09, high=0.11)) == "0.100 [0.090, 0.110]"


def test_scalar_is_one_line() -> None:
    value = {"a": [1, 2.5], "b": {"c": None, "d": True}, "e": ()}
    assert scalar(value) == "a 1 2.5, b c -, d yes, e -"
