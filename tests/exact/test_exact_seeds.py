"""An integer of too many values, as seeds are, is refused at once, and not laid out in memory."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from specverify.errors import UnsupportedRandomness
from specverify.exact import enumerate_law
from specverify.exact.calling import traced_generator


@pytest.mark.parametrize("count", [2**24, 2**62])
@pytest.mark.parametrize(
    "draw",
    [
        lambda count: torch.randint(count, (1,)).item(),
        lambda count: torch.randint(0, count, (), generator=torch.Generator()).item(),
        lambda count: traced_generator("numpy").integers(count),
        lambda count: traced_generator("numpy").integers(0, count - 1, size=4, endpoint=True),
        lambda count: np.random.randint(count),  # noqa: NPY002 - what users write
        lambda count: random.randrange(count),
        lambda count: random.randint(1, count),
    ],
)
def test_seeds_are_refused(draw: Callable[[int], Any], count: int) -> None:
    with pytest.raises(UnsupportedRandomness, match=r"of \d+ values \(a seed\?\): too many"):
        enumerate_law(lambda: int(np.ravel(draw(count))[0]) % 2)


def test_a_token_id_is_no_seed() -> None:
    law = enumerate_law(lambda: int(torch.randint(6, (1,))) < 3)
    assert law.probabilities == {True: pytest.approx(0.5), False: pytest.approx(0.5)}
