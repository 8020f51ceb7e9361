"""Corrections agree with hand-computed ones; e-values combine as they must."""

from __future__ import annotations

import numpy as np
import pytest

from specverify.errors import InvalidInputError
from specverify.stats.multiplicity import average_log_e, bonferroni, combine_families, holm


def test_by_hand() -> None:
    np.testing.assert_allclose(holm([0.01, 0.04, 0.03, 0.005]), [0.03, 0.06, 0.06, 0.02])
    np.testing.assert_allclose(bonferroni([0.01, 0.4, 0.03]), [0.03, 1.0, 0.09])
    assert holm([]).shape == (0,)


def test_holm_never_exceeds_bonferroni() -> None:
    p_values = np.random.default_rng(0).random(50) ** 4
    assert np.all(holm(p_values) <= bonferroni(p_values))


def test_average_log_e() -> None:
    assert average_log_e(np.log([1.0, 3.0])) == pytest.approx(np.log(2))
    assert average_log_e([]) == 0.0
    assert average_log_e([float("inf"), 0.0]) == float("inf")
    assert average_log_e([float("-inf")] * 2) == float("-inf")
    assert average_log_e([5000.0, 0.0]) == pytest.approx(5000 - np.log(2))


def test_combine_families() -> None:
    log_e, by_family = combine_families({"law": [np.log(40.0), np.log(20.0)], "acceptance": [0.0]})
    assert by_family == pytest.approx({"law": np.log(30.0), "acceptance": 0.0})
    assert log_e == pytest.approx(np.log(15.0))
    assert combine_families({}) == (0.0, {})


def test_refuses_what_is_no_p_value() -> None:
    with pytest.raises(InvalidInputError, match=r"^p_values"):
        holm([0.5, 1.5])
