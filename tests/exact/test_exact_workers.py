"""Enumeration by several processes gives the law of one process, bit for bit."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest

from specverify.errors import InvalidInputError, UnsupportedRandomness
from specverify.exact import TracedGenerator, enumerate_law

RNG = TracedGenerator()
ROWS = np.random.default_rng(4).dirichlet(np.ones(5), 4)


def walk(rows: np.ndarray = ROWS) -> tuple[int, ...]:
    """Tokens of four laws, a race among them; one outcome raises."""
    tokens = tuple(int(RNG.choice(5, p=row)) for row in rows[:-1])
    if tokens == (0, 1, 2):
        raise ValueError("no residual")
    if RNG.random() < 0.3:
        return tokens
    return (*tokens, int(np.argmax(rows[-1] / RNG.exponential(size=5))))


def noisy() -> bool:
    """Something that is refused, but only on a branch that a worker gets to."""
    tokens = [int(RNG.choice(5, p=row)) for row in ROWS]
    return bool(RNG.normal() > 0) if tokens == [0, 4, 0, 4] else True


def test_two_workers_find_the_same_law_bit_for_bit() -> None:
    alone = enumerate_law(walk)
    shared = enumerate_law(partial(walk, ROWS), workers=2)
    assert dict(shared.probabilities) == dict(alone.probabilities)
    assert shared.exceptions == alone.exceptions
    assert (shared.paths, shared.runs, shared.slack) == (alone.paths, alone.runs, alone.slack)
    assert shared.complete
    assert alone.paths > 600


def test_workers_keep_to_the_budget_and_account_for_the_rest() -> None:
    law = enumerate_law(walk, workers=2, max_paths=100)
    assert 0 < law.paths <= 100
    known = math.fsum(law.probabilities.values()) + law.exception_mass
    assert math.isclose(known + law.unexplored_mass, 1.0)
    assert 0 < law.unexplored_mass < 1
    again = enumerate_law(walk, workers=2, max_paths=100)
    assert dict(again.probabilities) == dict(law.probabilities)


def test_a_refusal_comes_back_by_name() -> None:
    with pytest.raises(UnsupportedRandomness, match=r"Generator\.normal at .*test_exact_workers"):
        enumerate_law(noisy, workers=2)


def test_what_workers_cannot_import_is_the_caller_s_mistake() -> None:
    with pytest.raises(InvalidInputError, match="importable by name"):
        enumerate_law(lambda: RNG.random() < 0.5, workers=2)
    with pytest.raises(InvalidInputError, match="workers"):
        enumerate_law(walk, workers=0)
