"""Forms, their arithmetic and the integration of races, against plain numbers."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from specverify.exact import TracedGenerator, algebra, enumerate_law
from specverify.exact.forms import Form, forward, increasing, inverse
from specverify.exact.quadrature import _integrate

V = np.linspace(0.01, 0.99, 25)
POSITIVE = [
    Form("U", 0.0, 2.0),
    Form("U", 3.0, -3.0),
    Form("U", 1.5, 0.5),
    Form("E", 0.0, 1.5),
    Form("E", 0.2, 1.0),
    Form("P", -1.0, 0.4),
    Form("Q", 2.5, 3.0),
    Form("U", 0.5, 1.0, (("power", 2.0), ("add", 0.1))),
]
ANY = [*POSITIVE, Form("L", 0.3, -1.0), Form("E", 0.0, -1.0), Form("U", -1.0, 2.0)]


@pytest.mark.parametrize("form", ANY, ids=str)
def test_the_inverse_undoes_the_function(form: Form) -> None:
    np.testing.assert_allclose(inverse(form, forward(form, V)), V, rtol=1e-12)
    steps = np.diff(forward(form, V))
    assert (steps > 0).all() if increasing(form) else (steps < 0).all()


ARITHMETIC: dict[str, tuple[Callable[[Form], Form], Callable[[np.ndarray], np.ndarray]]] = {
    "plus": (lambda form: algebra.plus(form, -0.7), lambda y: y - 0.7),
    "times": (lambda form: algebra.times(form, -2.0), lambda y: y * -2.0),
    "over": (lambda form: algebra.over(form, 3.0), lambda y: y / 3.0),
    "exp": (algebra.exp, np.exp),
    "clamp": (lambda form: algebra.then(form, "raise_to", 0.3), lambda y: np.maximum(y, 0.3)),
}


@pytest.mark.parametrize("name", ARITHMETIC)
@pytest.mark.parametrize("form", ANY, ids=str)
def test_arithmetic_on_forms_is_that_on_values(form: Form, name: str) -> None:
    symbolic, plain = ARITHMETIC[name]
    np.testing.assert_allclose(forward(symbolic(form), V), plain(forward(form, V)), rtol=1e-12)


@pytest.mark.parametrize("form", POSITIVE, ids=str)
def test_powers_and_logarithms_of_positive_forms(form: Form) -> None:
    y = forward(form, V)
    np.testing.assert_allclose(forward(algebra.power(form, 0.4), V), y**0.4, rtol=1e-12)
    np.testing.assert_allclose(forward(algebra.power(form, -1.0), V), 1 / y, rtol=1e-12)
    logged, mirrored = algebra.log(form)
    np.testing.assert_allclose(forward(logged, 1 - V if mirrored else V), np.log(y), atol=1e-12)


def test_integration_agrees_with_the_closed_form() -> None:
    rates = np.array([0.2, 0.3, 0.5])
    keys = tuple((Form("P", -1.0, float(rate)), 0.0, 1.0) for rate in rates)
    np.testing.assert_allclose(_integrate(keys, -math.inf), rates, atol=1e-13)


def test_integration_with_a_bar_and_cut_intervals() -> None:
    """Two uniforms, one known to be under 1/2, and the constant 1/4."""
    keys = ((Form("U", 0.0, 1.0), 0.0, 0.5), (Form("U", 0.0, 1.0), 0.0, 1.0))
    # P(constant) = 1/2 * 1/4; P(first) = 2 * integral of u over (1/4, 1/2); the rest is the second.
    first = 2 * (0.125 - 0.03125)
    np.testing.assert_allclose(
        _integrate(keys, 0.25), [first, 1 - first - 0.125, 0.125], atol=1e-13
    )


def test_a_constant_may_win_a_race() -> None:
    rng = TracedGenerator()

    def draw() -> int:
        keys = np.concatenate([rng.random(2), np.array([0.5])])
        return int(keys.argmax())

    found = enumerate_law(draw).probabilities
    assert math.isclose(found[2], 0.25, abs_tol=1e-13)
    assert math.isclose(found[0], 0.375, abs_tol=1e-13)


def test_a_clamped_value_is_not_compared_with_its_bound() -> None:
    from specverify.errors import UnsupportedRandomness

    rng = TracedGenerator()
    clamped = enumerate_law(lambda: bool(np.maximum(rng.random(), 0.2) < 0.3))
    assert math.isclose(clamped.probabilities[True], 0.3)
    with pytest.raises(UnsupportedRandomness, match="clamped"):
        enumerate_law(lambda: bool(np.maximum(rng.random(), 0.2) <= 0.2))
