"""The reading of OpenVINO GenAI's rule: its generator, and the law that each departure breaks."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import chi2

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "simulations"))

from openvino_rule import READINGS, Reading, Stream, first_two

FALSE_ALARM = 1e-6  # of the statistical test; its seeds are fixed
RIGHT = Reading(text="all right", own_stream=True, own_ratio=True, correction="residual")
FIRST = np.array([0.5, 0.3, 0.2])
TARGET = np.array([[0.6, 0.3, 0.1], [0.2, 0.5, 0.3], [0.1, 0.2, 0.7]])
DRAFT = np.array([[0.3, 0.3, 0.4], [0.4, 0.4, 0.2], [0.3, 0.4, 0.3]])


def target(new):  # type: ignore[no-untyped-def]
    return TARGET[new[-1]] if new else FIRST


def draft(new):  # type: ignore[no-untyped-def]
    return DRAFT[new[-1]]


def p_value(reading: Reading, n: int = 2000) -> float:
    counts = np.zeros((3, 3))
    for seed in np.random.SeedSequence(1).generate_state(n):
        counts[first_two(int(seed), target, draft, reading)] += 1
    expected = n * FIRST[:, None] * TARGET
    return float(chi2.sf(((counts - expected) ** 2 / expected).sum(), 8))


def test_the_generator_is_the_standards() -> None:
    stream = Stream(5489)  # the seed of a default-constructed std::mt19937
    for _ in range(9999):
        stream.uniform()
    assert stream.uniform() == 4123659995 / 2**32  # what the C++ standard demands of word 10,000


def test_hundredths_are_101_values() -> None:
    stream = Stream(1)
    values = {stream.hundredth() for _ in range(5000)}
    assert values == {k / 100 for k in range(101)}


def test_the_rule_put_right_follows_the_target() -> None:
    assert p_value(RIGHT) > FALSE_ALARM


@pytest.mark.parametrize("name", READINGS)
def test_every_reading_with_a_departure_does_not(name: str) -> None:
    assert p_value(READINGS[name]) < FALSE_ALARM
