"""Affine maps by panels: the plain product, at every width, number of rows and dtype."""

from __future__ import annotations

import numpy as np
import pytest

from specverify.models.panels import PanelMap, side_by_side


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


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_maps_stay_what_they_are_side_by_side(dtype) -> None:
    rng = np.random.default_rng(1)
    maps = [
        PanelMap(rng.normal(size=shape).astype(dtype), np.ones(shape[1], dtype))
        for shape in ((3, 70), (192, 129), (1, 1))
    ]
    given = [rng.normal(size=(4, inputs)).astype(dtype) for inputs in (3, 192, 1)]
    before = [each(rows) for each, rows in zip(maps, given, strict=True)]
    side_by_side(maps)
    for each, rows, expected in zip(maps, given, before, strict=True):
        assert each._panels.ctypes.data % 64 == 0
        np.testing.assert_allclose(each(rows), expected, rtol=0, atol=1e-4)
    assert len({id(each._panels.base) for each in maps}) == 1
