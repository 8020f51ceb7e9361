"""Synthetic pairs have the acceptance rate that was asked for."""

from __future__ import annotations

import numpy as np
import pytest

from specverify.distributions import acceptance_rate, check_distribution
from specverify.errors import InvalidInputError
from specverify.stats.synthetic import zipf_pair


@pytest.mark.parametrize("size", [8, 128, 50257])
@pytest.mark.parametrize("alpha", [0.6, 0.8])
def test_acceptance_rate(size, alpha) -> None:
    target, draft = zipf_pair(size, np.random.default_rng(size), alpha=alpha)
    check_distribution("target", target)
    check_distribution("draft", draft)
    assert float(acceptance_rate(target, draft)) == pytest.approx(alpha, abs=1e-8)


def test_refusals() -> None:
    with pytest.raises(InvalidInputError, match=r"^vocab_size"):
        zipf_pair(1, np.random.default_rng(0))
    with pytest.raises(InvalidInputError, match=r"^alpha"):
        zipf_pair(4, np.random.default_rng(0), alpha=1.0)
