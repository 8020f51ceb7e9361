"""Workers and their tasks: what a result may put first, and the note of a call."""

from __future__ import annotations

from collections import deque
from contextlib import closing
from pathlib import Path

import pytest

from specverify.audit.config import AuditConfig
from specverify.audit.exact_stage import exact_task, search_task
from specverify.audit.forms import Form
from specverify.audit.observer import FlightRecorder
from specverify.audit.run import make_executor
from specverify.audit.suites import find_scenario
from specverify.audit.wire import Task

PLANTED = Path(__file__).resolve().parent.parent / "planted" / "biased_numpy.py"


def traced(name: str) -> Task:
    return exact_task(find_scenario(Form.VERIFY, name), 1)


@pytest.mark.parametrize("isolation", ["inline", "process"])
def test_what_a_traced_law_puts_first_is_run_first(isolation: str) -> None:
    """The smallest case is looked for at once, not behind the scenarios that wait."""
    config = AuditConfig(workers=1, isolation=isolation)
    tasks = deque([traced("smallest"), traced("disjoint")])
    run = []
    with closing(make_executor(f"{PLANTED}:resample_from_target", config, 0)) as executor:
        for task, tally in executor.run(tasks):
            assert tally.error is None
            if not run:
                tasks.appendleft(search_task("smallest"))
            run.append((task.scenario, task.n == 0))
    assert run == [("smallest", False), ("smallest", True), ("disjoint", False)]


def test_two_sides_of_a_note_see_the_same(tmp_path: Path) -> None:
    writing = FlightRecorder(tmp_path / "calls", create=True)
    reading = FlightRecorder(tmp_path / "calls")
    assert (reading.begun, reading.in_flight, reading.note) == (0, False, [])
    writing.begin((3, 1, 2))
    assert (reading.begun, reading.in_flight, reading.note) == (1, True, [3, 1, 2])
    writing.end()
    writing.begin([2**40] * 200)  # longer than there is room
    assert (reading.begun, reading.in_flight) == (2, True)
    assert set(reading.note) == {2**40}
    assert len(reading.note) < 200
