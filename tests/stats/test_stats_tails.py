"""Tails from scipy.special are those of scipy.stats, far out as well."""

from __future__ import annotations

import sys
from subprocess import run

import numpy as np
import pytest
from scipy import stats

from specverify.stats import tails

DOFS = (1, 2, 7, 100, 50_256)
LEVELS = (1e-12, 1e-6, 0.05, 0.5, 0.95)


@pytest.mark.parametrize("dof", DOFS)
def test_chi_squares(dof) -> None:
    for level in LEVELS:
        value = float(stats.chi2.isf(level, dof))
        assert tails.chi2_isf(level, dof) == pytest.approx(value, rel=1e-12)
        assert tails.chi2_sf(value, dof) == pytest.approx(level, rel=1e-8)
        assert tails.chi2_cdf(value, dof) == pytest.approx(stats.chi2.cdf(value, dof), rel=1e-12)
        for extra in (0.1, 30.0, 5000.0):
            expected = float(stats.ncx2.cdf(value, dof, extra))
            found = tails.noncentral_chi2_cdf(value, dof, extra)
            assert found == pytest.approx(expected, rel=1e-9, abs=1e-12)
        # Where a chi-square that is not central at all lies below so rarely, no centre is far out.
        mass = float(stats.chi2.cdf(value, dof))
        assert tails.noncentrality_at(min(1.0, 1.001 * mass), value, dof) == 0.0
        extra = tails.noncentrality_at(mass / 2, value, dof)
        assert stats.ncx2.cdf(value, dof, extra) == pytest.approx(mass / 2, rel=1e-6)
    assert tails.chi2_sf(0.0, dof) == 1.0


@pytest.mark.parametrize("level", LEVELS)
def test_normal_and_student(level) -> None:
    value = float(stats.norm.isf(level))
    assert tails.normal_isf(level) == pytest.approx(value, rel=1e-12, abs=1e-12)
    assert tails.normal_sf(value) == pytest.approx(level, rel=1e-10)
    for dof in (1, 4, 30):
        expected = float(stats.t.isf(level, dof))
        assert tails.student_isf(level, dof) == pytest.approx(expected, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(("a", "b"), [(1, 5), (3, 1), (40, 2000), (100_000, 3)])
def test_beta(level, a, b) -> None:
    assert tails.beta_ppf(level, a, b) == pytest.approx(float(stats.beta.ppf(level, a, b)), 1e-9)
    assert tails.beta_isf(level, a, b) == pytest.approx(float(stats.beta.isf(level, a, b)), 1e-9)


def test_binomial() -> None:
    successes, probability = np.arange(6), np.array([1e-7, 0.01, 0.3, 0.7, 0.999, 1.0])
    for trials in (5, 2000):
        expected = stats.binom.cdf(successes, trials, probability)
        found = tails.binomial_cdf(successes, trials, probability)
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-300)


def test_an_audit_does_without_the_large_module() -> None:
    code = "import sys, specverify.audit.run; print('scipy.stats' in sys.modules)"
    said = run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert said.strip() == "False"
