"""Each conformance check fails on what it is about, and on nothing else of the sort."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import verifiers_for_tests as kernels

from specverify.errors import InvalidInputError
from specverify.sampler.decode import speculative_decode
from specverify.testing import (
    Check,
    ConformanceError,
    EfficiencyWarning,
    NotLosslessError,
    parametrize_with_checks,
)


def checks_of(implementation: Any, **settings: Any) -> dict[str, Check]:
    mark = parametrize_with_checks([implementation], **settings)
    return {param.values[1].name: param.values[1] for param in mark.args[1]}


def failing(implementation: Any, **settings: Any) -> set[str]:
    found = set()
    for name, check in checks_of(implementation, **settings).items():
        try:
            check(implementation)
        except ConformanceError:
            found.add(name)
    return found


def test_a_right_verifier_passes_every_check() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", EfficiencyWarning)
        assert failing(kernels.right) == set()


@pytest.mark.filterwarnings("ignore::specverify.testing.EfficiencyWarning")
@pytest.mark.parametrize(
    ("implementation", "expected"),
    [
        (kernels.from_target, {"token_law", "joint_law"}),
        (kernels.permuted, {"joint_law"}),
        (kernels.forbidden, {"token_law", "joint_law", "support"}),
        (kernels.writes, {"no_mutation"}),
        (kernels.unseeded, {"deterministic_under_seed"}),
        (kernels.too_long, {"joint_law", "support", "returns_valid_tokens"}),
    ],
)
def test_a_defect_fails_the_checks_that_are_about_it(
    implementation: Any, expected: set[str]
) -> None:
    assert failing(implementation, gammas=[2]) == expected


def test_another_number_of_tokens_is_a_warning() -> None:
    check = checks_of(kernels.no_bonus, gammas=[1])["emitted_length"]
    with pytest.warns(
        EfficiencyWarning, match=r"no_bonus: emitted lengths differ .* by 1 in target = draft"
    ):
        check(kernels.no_bonus)


def test_samples_answer_the_same_questions() -> None:
    assert "token_law" in failing(kernels.from_target, mode="statistical", gammas=[2])
    assert failing(kernels.right, mode="statistical", gammas=[8]) == set()


def test_a_check_may_be_asked_of_another_implementation() -> None:
    check = checks_of(kernels.right)["joint_law"]
    with pytest.raises(NotLosslessError, match="from_target"):
        check(kernels.from_target)


def test_a_loop_has_the_checks_that_apply_to_it() -> None:
    checks = checks_of(speculative_decode, form="decode", framework="numpy", gammas=[1])
    assert "support" not in checks
    checks["joint_law"](speculative_decode)


def test_a_check_has_the_name_of_its_question() -> None:
    for name, check in checks_of(kernels.right).items():
        assert check.__name__ == name


def test_unknown_expected_failures_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="tokens_law"):
        parametrize_with_checks(
            [kernels.right], expected_failed_checks={"right": {"tokens_law": "a typo"}}
        )


def test_expected_failures_may_be_a_function() -> None:
    mark = parametrize_with_checks(
        [kernels.right, kernels.from_target],
        expected_failed_checks=lambda f: {"support": "because"} if f is kernels.right else {},
    )
    marked = [param.id for param in mark.args[1] if param.marks]
    assert marked == ["right-support"]
