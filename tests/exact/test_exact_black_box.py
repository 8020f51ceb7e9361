"""Kernels that take their noise as arguments: a right one, and mutants that must all be caught."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from specverify.audit.rows import zipf
from specverify.errors import InvalidInputError
from specverify.exact.black_box import BlackBoxKernel
from specverify.exact.hybrid import standard_conditional_law

GAMMA, VOCAB = 3, 40
ROWS = tuple(rows[:, 0] for rows in zipf(VOCAB, 0.8)(np.random.default_rng(3), GAMMA + 1))
TARGET, DRAFT = ROWS[0], ROWS[1][:GAMMA]
RATIOS = TARGET[:GAMMA] / DRAFT
# Drafts that may be rejected at each position.
DRAFTS = tuple(int(token) for token in np.argmin(np.abs(RATIOS - 0.6), axis=1))


def residuals(target: Any, draft: Any) -> Any:
    """Corrections by position, and the bonus row last."""
    return np.concatenate([np.maximum(target[:-1] - draft, 0.0), target[-1:]])


def kernel(
    target: Any,
    draft: Any,
    *,
    last: Callable[[Any, Any], Any] = residuals,
    uniform_of: Callable[[Any], Any] = lambda uniforms: uniforms,
    dtype: str = "float64",
) -> Callable[[Any, Any], Any]:
    """A batched kernel in numpy, as accelerators have them: no loop over blocks, noise given."""
    target, draft = target.astype(dtype), draft.astype(dtype)
    places = np.arange(GAMMA)
    ratios = target[places, list(DRAFTS)] / draft[places, list(DRAFTS)]
    weights = last(target, draft)

    def run(uniforms: Any, exponentials: Any) -> Any:
        passed = uniform_of(uniforms) < ratios
        accepted = np.logical_and.accumulate(passed, axis=1).sum(axis=1)
        final = (weights[accepted] / exponentials).argmax(axis=1)
        padded = np.concatenate([np.tile(DRAFTS, (len(uniforms), 1)), final[:, None]], axis=1)
        columns = np.arange(GAMMA + 1)
        emitted = np.where(columns < accepted[:, None], padded, -1)
        return np.where(columns == accepted[:, None], final[:, None], emitted)

    return run


def verdict(run: Any, *, trials: int = 2000, dtype: str = "float64") -> Any:
    box = BlackBoxKernel(run, DRAFTS, VOCAB, dtype=dtype)
    return box.check(TARGET, DRAFT, generator=np.random.default_rng(5), trials=trials)


def test_a_right_kernel_conforms() -> None:
    found = verdict(kernel(TARGET, DRAFT))
    assert found.conforms
    assert found.mismatch is None
    assert found.deviation < 1e-12
    assert found.law.error < 1e-10
    # No mismatch among 2,000: at confidence 1 - 1e-6 fewer than 0.7 % of the noises have one.
    assert found.unpredicted_bound < 0.007
    assert found.law.calls < 300


def test_its_law_is_read_off_exactly() -> None:
    law = BlackBoxKernel(kernel(TARGET, DRAFT), DRAFTS, VOCAB).recover()
    expected = np.minimum(RATIOS[np.arange(GAMMA), list(DRAFTS)], 1.0)
    np.testing.assert_allclose(law.thresholds, expected, atol=1e-14)
    standard = standard_conditional_law(TARGET, DRAFT, DRAFTS)
    assert law.rows().keys() == standard.keys()
    for before, row in standard.items():
        np.testing.assert_allclose(law.rows()[before], row, atol=1e-13)
    assert math.isclose(math.fsum(float(r.sum()) for r in law.rows().values()), 1.0)


def test_a_float32_kernel_conforms_within_its_rounding() -> None:
    found = verdict(kernel(TARGET, DRAFT, dtype="float32"), dtype="float32")
    assert found.conforms
    assert 0 < found.deviation < 1e-6


def wrong_row(target: Any, draft: Any) -> Any:
    return residuals(target, np.roll(draft, 1, axis=0))


def one_block_uniform(uniforms: Any) -> Any:
    return np.broadcast_to(uniforms[:, :1], uniforms.shape)


def running_minimum(uniforms: Any) -> Any:
    """Tests depend on the uniforms before: the thresholds look right one at a time."""
    return 1 - np.minimum.accumulate(1 - uniforms, axis=1) * (1 - 0.1 * uniforms[:, :1])


MUTANTS: dict[str, Callable[[Any, Any], Any]] = {
    "residual from the target": kernel(TARGET, DRAFT, last=lambda t, q: t),
    "residual from the wrong row": kernel(TARGET, DRAFT, last=wrong_row),
    "bonus from the draft": kernel(
        TARGET, DRAFT, last=lambda t, q: np.concatenate([residuals(t, q)[:-1], q[-1:]])
    ),
    "one uniform for all tests": kernel(TARGET, DRAFT, uniform_of=one_block_uniform),
    "tests that depend on each other": kernel(TARGET, DRAFT, uniform_of=running_minimum),
    "ratio upside down": kernel(np.vstack([DRAFT, TARGET[-1:]]), TARGET[:-1]),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_mutants_are_caught(name: str) -> None:
    found = verdict(MUTANTS[name])
    assert not found.conforms
    assert found.mismatch is not None or found.deviation > 1e-3


def test_the_first_mismatch_is_reported_with_its_noise() -> None:
    """Thresholds and weights of this kernel are right one at a time: only prediction sees it."""
    right = kernel(TARGET, DRAFT)

    def run(uniforms: Any, exponentials: Any) -> Any:
        # Where two uniforms are small together, the block is verified as if both were large.
        joint = (uniforms[:, :1] < 0.3) & (uniforms[:, 1:2] < 0.3) & (uniforms[:, :1] > 0.01)
        return right(np.where(joint & (uniforms[:, 1:2] > 0.01), 0.999, uniforms), exponentials)

    found = verdict(run)
    assert found.deviation < 1e-12
    assert not found.conforms
    mismatch = found.mismatch
    again = run(mismatch.uniforms[None], mismatch.exponentials[None])[0]
    assert tuple(token for token in again.tolist() if token >= 0) == mismatch.emitted
    assert mismatch.emitted != mismatch.predicted
    assert 0.01 < found.mismatches / found.trials < 0.2


def test_a_given_bonus_token_is_a_law_of_one_point() -> None:
    """As in engines that draw the bonus beforehand."""
    run = kernel(
        TARGET, DRAFT, last=lambda t, q: np.vstack([residuals(t, q)[:-1], np.eye(VOCAB)[7]])
    )
    law = BlackBoxKernel(run, DRAFTS, VOCAB).recover()
    assert law.weights[-1] is not None
    assert law.weights[-1][7] == 1.0


def test_unfit_arguments_are_the_caller_s_mistake() -> None:
    with pytest.raises(InvalidInputError, match="dtype"):
        BlackBoxKernel(kernel(TARGET, DRAFT), DRAFTS, VOCAB, dtype="bfloat16")
    with pytest.raises(InvalidInputError, match="run"):
        BlackBoxKernel(lambda u, e: np.zeros((len(u), 2)), DRAFTS, VOCAB).recover()
