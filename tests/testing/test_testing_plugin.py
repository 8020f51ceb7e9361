"""The plugin, by pytest inside pytest: fixture, options, shared level, report, xdist."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

# A run inside this process forgets what it imported, and numpy's parts load only once.
import specverify.testing.evidence  # noqa: F401
from specverify.testing.session import SharedSession

pytest_plugins = ["pytester"]

KERNELS = Path(__file__).with_name("verifiers_for_tests.py").read_text()
LEVEL = "--specverify-false-alarm=1e-4"
SUITE = """
import pytest
import kernels
from specverify.testing import parametrize_with_checks
from specverify.testing.session import active_session

@parametrize_with_checks(
    [kernels.right, kernels.from_target], gammas=[1],
    expected_failed_checks={"from_target": {"token_law": "known", "joint_law": "known"}},
)
def test_kernel(implementation, check):
    check(implementation)

def test_by_fixture(specverify):
    report = specverify.assert_lossless(kernels.right, gammas=[1])
    assert report.mode == "exact"

def test_planted(specverify):
    specverify.assert_lossless(kernels.from_target, gammas=[1])

def test_shared_level(specverify):
    session = active_session()
    # Four checks and three fixtures use the suite; the unrelated test does not.
    assert session.items == 7
    assert session.next_level() == pytest.approx(1e-4 / 7 / 2)
    assert session.next_level() == pytest.approx(1e-4 / 7 / 6)

def test_unrelated():
    pass
"""


@pytest.fixture
def suite(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makepyfile(kernels=KERNELS, test_suite=SUITE)
    return pytester


def test_right_passes_expected_failures_are_xfails_planted_bugs_fail(suite: Any) -> None:
    chosen = ["-k", "law or fixture or planted or level or unrelated", LEVEL]
    result = suite.runpytest(*chosen, "-rx", "--specverify-report=out/alone.json")
    result.assert_outcomes(passed=5, failed=1, xfailed=2, deselected=10)
    result.stdout.fnmatch_lines(
        [
            "*the law breaks at position 0*consistent with resample_from_target*",
            "*smallest counterexample found (V = 2, gamma = 1, total variation 0.25)*",
            "*specverify audit *kernels.py:from_target --form verify --seed 0",
            "XFAIL *from_target-token_law] - known",
        ]
    )
    result.stdout.no_fnmatch_line("*lossless.py*in check_lossless*")
    alone = json.loads((suite.path / "out/alone.json").read_text())
    outcomes = Counter(entry["outcome"] for entry in alone["checks"])
    assert outcomes == {"passed": 3, "failed": 1, "xfailed": 2}
    # Two workers find the same, and the controller merges what they say.
    report = "--specverify-report=out/together.json"
    result = suite.runpytest_subprocess(*chosen, "-n", "2", report)
    result.assert_outcomes(passed=5, failed=1, xfailed=2)
    assert json.loads((suite.path / "out/together.json").read_text()) == alone


def test_shares_sum_to_the_level() -> None:
    session = SharedSession(false_alarm=1e-3, items=4)
    session.begin_test()
    assert sum(session.next_level() for _ in range(10_000)) == pytest.approx(1e-3 / 4, rel=1e-3)


def test_the_budget_reaches_the_checks(pytester: Any) -> None:
    pytester.makepyfile(
        kernels=KERNELS,
        test_budget="""
        import kernels
        from specverify.testing import parametrize_with_checks

        def test_fixture(specverify):
            specverify.assert_lossless(kernels.opaque, gammas=[2])

        @parametrize_with_checks([kernels.opaque], gammas=[2])
        def test_checks(implementation, check):
            if check.name == "joint_law":
                check(implementation)
        """,
    )
    result = pytester.runpytest("--specverify-budget=300")
    result.assert_outcomes(passed=6, failed=2)
    result.stdout.fnmatch_lines(["*neither shown lossless nor refuted within 300*"])


@pytest.mark.parametrize(
    ("option", "problem"),
    [
        ("--specverify-budget=much", "*--specverify-budget: must look like 60s*"),
        ("--specverify-false-alarm=2", "*--specverify-false-alarm: must lie in (0, 1)*"),
    ],
)
def test_unusable_options_are_named(pytester: Any, option: str, problem: str) -> None:
    result = pytester.runpytest(option)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([problem])


def test_an_unexpected_pass_fails(pytester: Any) -> None:
    pytester.makepyfile(
        kernels=KERNELS,
        test_xpass="""
        import kernels
        from specverify.testing import parametrize_with_checks

        @parametrize_with_checks(
            [kernels.right], gammas=[1], expected_failed_checks={"right": {"support": "once"}}
        )
        def test_kernel(implementation, check):
            check(implementation)
        """,
    )
    result = pytester.runpytest("-k", "support")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*XPASS(strict)*once*"])


def test_runs_that_do_not_use_it_load_nothing_heavy(pytester: Any) -> None:
    pytester.makepyfile(
        """
        import sys

        def test_light():
            loaded = {"torch", "scipy", "hypothesis", "numpy", "msgspec"} & set(sys.modules)
            assert not loaded
            assert "specverify.testing.plugin" in sys.modules
        """
    )
    # Hypothesis brings a plugin of its own, which is not this one's doing.
    result = pytester.runpytest_subprocess("-p", "no:hypothesispytest", "-p", "no:timeout")
    result.assert_outcomes(passed=1)


def test_the_sample_repository(sample_repository: Path) -> None:
    found = subprocess.run(
        [sys.executable, "-m", "pytest", "-n", "2", "-rx", "-p", "no:cacheprovider"],
        cwd=sample_repository,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert found.returncode == 1, found.stdout + found.stderr
    assert "1 failed, 12 passed, 2 xfailed" in found.stdout
    assert "smallest counterexample found (V = 3, gamma = 1" in found.stdout
    assert "specverify audit fastdecode/kernels.py:verify_fused" in found.stdout
    assert "issue 12: the correction is drawn from the target" in found.stdout
