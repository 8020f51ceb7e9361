"""Two independent ways to an exact law: the zoo's own draws, and the tracer of numpy's."""

from __future__ import annotations

import numpy as np
import pytest

from specverify.bugs import CONTROLS, LOSSY, ZOO, Kind
from specverify.bugs.laws import block_law, law_distance
from specverify.errors import UnsupportedRandomness
from specverify.exact import TracedGenerator, enumerate_law

ROWS = np.array([[0.4, 0.1, 0.1, 0.4], [0.1, 0.2, 0.3, 0.4], [0.45, 0.15, 0.1, 0.3]])
DRAFTS = np.array([[0.1, 0.4, 0.4, 0.1], [0.3, 0.05, 0.6, 0.05]])

# A generator of one's own and a cast to float32 are what the tracer exists to refuse.
REFUSED = {"seed_ignored", "hard_coded_temperature", "closed_uniform"}
VERIFIERS = {
    bug.name: bug
    for bug in [*ZOO.values(), *CONTROLS.values(), *LOSSY.values()]
    if bug.kind is Kind.VERIFY
}


def traced(bug):
    def run():
        generator = TracedGenerator()
        tokens = np.array([int(generator.choice(4, p=row)) for row in DRAFTS])
        return tuple(int(token) for token in bug.callable(ROWS, DRAFTS, tokens, generator)[0])

    return enumerate_law(run)


@pytest.mark.parametrize("name", sorted(VERIFIERS.keys() - REFUSED))
def test_the_traced_law_is_the_stated_one(name) -> None:
    bug = VERIFIERS[name]
    law = traced(bug)
    assert law.complete
    assert law_distance(law.probabilities, block_law(bug.callable, ROWS, DRAFTS)) < 1e-12


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_hidden_randomness_is_refused(name) -> None:
    with pytest.raises(UnsupportedRandomness):
        traced(VERIFIERS[name])
