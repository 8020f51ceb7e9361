"""One test of each conformance check and implementation, as scikit-learn's users know it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import pytest

from specverify.errors import InvalidInputError
from specverify.testing.conformance import Check, names_for, next_level
from specverify.testing.evidence import Evidence
from specverify.testing.failures import ConformanceError
from specverify.testing.naming import display_name
from specverify.testing.options import Options
from specverify.testing.session import active_session

__all__ = ["parametrize_with_checks"]

ExpectedFailures: TypeAlias = (
    Callable[[Any], Mapping[str, str]] | Mapping[str, Mapping[str, str]] | None
)
"""Reasons by check's name: a function of the implementation, or a mapping from its name."""


def parametrize_with_checks(
    implementations: Iterable[Callable[..., Any]],
    *,
    expected_failed_checks: ExpectedFailures = None,
    form: str = "verify",
    framework: str | None = None,
    gammas: Sequence[int] | None = None,
    mode: str = "auto",
    tolerance: float | None = None,
    budget: str | None = None,
    seed: int = 0,
) -> pytest.MarkDecorator:
    """Decorate a test that takes ``implementation`` and ``check``.

    Example::

        @parametrize_with_checks([my_verify])
        def test_speculative(implementation, check):
            check(implementation)

    Args:
        implementations: Callables of one form.
        expected_failed_checks: Reasons of expected failures: a function from an implementation to
            ``{check: reason}``, or a mapping from its name to that. They become strict xfails: an
            expected failure that passes fails the run.
        form: ``verify``, ``batched`` or ``decode``.
        framework: ``torch`` or ``numpy``; found from the signature and its module when None.
        gammas: Block sizes; the suite's own when None.
        mode: ``exact``, ``statistical``, or ``auto``: exact where possible.
        tolerance: As for :func:`specverify.testing.assert_lossless`.
        budget: The most to spend on an implementation; the option ``--specverify-budget`` of the
            run when None.
        seed: Seed of every draw and of the search.

    Returns:
        A decorator.

    Raises:
        InvalidInputError: If a setting, or the name of a check, is unusable.
    """
    session = active_session()
    options = Options(
        form=form,
        framework=framework,
        gammas=None if gammas is None else tuple(gammas),
        mode=mode,
        tolerance=tolerance,
        budget=budget if budget is not None or session is None else session.budget,
        seed=seed,
    )
    params = []
    for implementation in implementations:
        evidence = Evidence(implementation, options, next_level)
        reasons = _reasons(expected_failed_checks, implementation, form)
        params += [_param(evidence, name, reasons.get(name)) for name in names_for(form)]
    return pytest.mark.parametrize(("implementation", "check"), params)


def _param(evidence: Evidence, name: str, reason: str | None) -> Any:
    marks: tuple[pytest.MarkDecorator, ...] = ()
    if reason is not None:
        marks = (pytest.mark.xfail(reason=reason, strict=True, raises=ConformanceError),)
    identity = f"{display_name(evidence.implementation)}-{name}"
    check = Check(name=name, evidence=evidence)
    return pytest.param(evidence.implementation, check, id=identity, marks=marks)


def _reasons(expected: ExpectedFailures, implementation: Any, form: str) -> Mapping[str, str]:
    if expected is None:
        return {}
    name = display_name(implementation)
    found = expected(implementation) if callable(expected) else expected.get(name, {})
    for check in found:
        if check not in names_for(form):
            known = ", ".join(names_for(form))
            raise InvalidInputError("expected_failed_checks", f"{check!r} is none of {known}")
    return found
