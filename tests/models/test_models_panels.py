"""Affine maps by panels: the plain product, at every width, number of rows and dtype."""

from __future__ import annotations

import numpy as np
import pytest

from specverify.models.panels import PanelMap


# 4,000 inputs make panels of 8 columns, 192 panels of 64; 1, 70 and 129 columns leave a gap.
@pytest.mark.parametrize("inputs", [1, 192, 4000])
@pytest.mark.parametrize("outputs", [1, 64, 70, 129])
@pytest.mark.parametrize("rows", [1, 5, 50])
def test_is_the_affine_map(inputs, outputs, rows) -> None:
    rng = np.random.default_rng(inputs * outputs)
    weight, bias = rng.normal(size=(inputs, outputs)), rng.normal(size=outputs)
    given = rng.normal(size=(rows, inputs))
    before = given.copy()
    mapped = PanelMap(weight, bias)(given)
    assert mapped.shape == (rows, outputs)
    np.testing.assert_allclose(mapped, given @ weight + bias, rtol=0, atol=1e-11)
    np.testing.assert_array_equal(given, before)


def test_single_precision_stays_single() -> None:
    rng = np.random.default_rng(0)
    weight, bias, rows = (
        rng.normal(size=shape).astype(np.float32) for shape in ((192, 576), (576,), (5, 192))
    )
    mapped = PanelMap(weight, bias)(rows)
    assert mapped.dtype == np.float32
    np.testing.assert_allclose(mapped, rows @ weight + bias, rtol=0, atol=1e-4)


def test_is_a_copy() -> None:
    weight, bias = np.ones((2, 3)), np.zeros(3)
    affine = PanelMap(weight, bias)
    weight += 1
    bias += 1
    np.testing.assert_array_equal(affine(np.ones((1, 2))), [[2, 2, 2]])
