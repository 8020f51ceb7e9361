"""The pytest plugin: a fixture, options, one false-alarm level for the whole run, a report.

Loaded in every pytest run of an environment that has this distribution, so it imports pytest and
small modules only; what audits is loaded by the test that asks for it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from specverify.testing.session import FALSE_ALARM, SharedSession, enter, leave

if TYPE_CHECKING:
    from specverify.testing.fixture import SpecVerify

__all__ = ["Reporter", "specverify"]

_SESSION = pytest.StashKey[SharedSession]()
_PROPERTY = "specverify"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of the suite."""
    group = parser.getgroup("specverify", "lossless speculative decoding")
    group.addoption(
        "--specverify-budget",
        metavar="BUDGET",
        help="The most that one check may spend: 60s, 2m (time) or 200k (paths or calls).",
    )
    group.addoption(
        "--specverify-false-alarm",
        type=float,
        default=FALSE_ALARM,
        metavar="LEVEL",
        help="Probability that any correct implementation fails, over the whole run "
        "(default: %(default)g).",
    )
    group.addoption(
        "--specverify-report", metavar="PATH", help="Write every check of the run to a JSON file."
    )


def pytest_configure(config: pytest.Config) -> None:
    """Open the session; only the controller writes a report."""
    level = config.getoption("--specverify-false-alarm")
    if not 0 < level < 1:
        raise pytest.UsageError(f"--specverify-false-alarm: must lie in (0, 1), got {level}")
    session = SharedSession(false_alarm=level, budget=_budget(config))
    config.stash[_SESSION] = session
    enter(session)
    path = config.getoption("--specverify-report")
    if path and not hasattr(config, "workerinput"):
        reporter = Reporter(config.invocation_params.dir / path, level)
        config.pluginmanager.register(reporter, "specverify-reporter")


def pytest_unconfigure(config: pytest.Config) -> None:
    """Close the session."""
    session = config.stash.get(_SESSION, None)
    if session is not None:
        leave(session)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Count the tests that share the level; every xdist worker collects the same ones."""
    shared = session.config.stash[_SESSION]
    shared.items = max(1, sum(map(_spends, session.items)))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Attach the records of a test's checks to its report, which travels to the controller."""
    session = item.config.stash[_SESSION]
    session.begin_test()
    try:
        yield
    finally:
        if session.entries:
            item.user_properties.append((_PROPERTY, json.dumps(session.entries, allow_nan=False)))


@pytest.fixture
def specverify(request: pytest.FixtureRequest) -> SpecVerify:
    """``specverify.assert_lossless(verify, ...)`` with the run's options and shared level."""
    from specverify.testing.fixture import SpecVerify

    return SpecVerify(request.config.stash[_SESSION])


class Reporter:
    """Collects the records of all tests and writes them at the end.

    Args:
        path: File to write.
        false_alarm: Level of the whole run.
    """

    def __init__(self, path: Path, false_alarm: float) -> None:
        self._path = path
        self._false_alarm = false_alarm
        self._checks: list[dict[str, Any]] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Called on the controller for the tests of every worker."""
        if report.when != "call":
            return
        outcome = "xfailed" if hasattr(report, "wasxfail") else report.outcome
        for name, value in report.user_properties:
            if name == _PROPERTY:
                entries = json.loads(str(value))
                self._checks += [{"test": report.nodeid, "outcome": outcome} | e for e in entries]

    def pytest_sessionfinish(self) -> None:
        """Write the file; the order of the tests does not depend on the workers."""
        checks = sorted(self._checks, key=lambda entry: str(entry["test"]))
        content = {"schema_version": 1, "false_alarm": self._false_alarm, "checks": checks}
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.write_text(json.dumps(content, indent=2, allow_nan=False) + "\n")


def _budget(config: pytest.Config) -> str | None:
    text = config.getoption("--specverify-budget")
    if text is None:
        return None
    from specverify.audit.config import Budget
    from specverify.errors import InvalidInputError

    try:
        Budget.parse(text)
    except InvalidInputError as error:
        raise pytest.UsageError(f"--specverify-budget: {error.problem}") from error
    return str(text)


def _spends(item: pytest.Item) -> bool:
    if "specverify" in getattr(item, "fixturenames", ()):
        return True
    callspec = getattr(item, "callspec", None)
    conformance = sys.modules.get("specverify.testing.conformance")
    if callspec is None or conformance is None:
        return False
    values: Sequence[Any] = list(callspec.params.values())
    return any(isinstance(value, conformance.Check) for value in values)
