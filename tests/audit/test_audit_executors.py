"""Workers and their tasks: what a result may put first, and the note of a call."""

from __future__ import annotations

from collections import deque
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from specverify.audit.config import AuditConfig
from specverify.audit.exact_stage import exact_task, search_task
from specverify.audit.executors import KEPT
from specverify.audit.forms import Form
from specverify.audit.observer import FlightRecorder
from specverify.audit.run import audit, make_executor
from specverify.audit.suites import find_scenario
from specverify.audit.wire import Task
from specverify.results import Verdict

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


POOL = """
import numpy as np

pool = []


def uniform(rng):
    if not pool:
        pool.extend(rng.random(64))
    return pool.pop()


def draw(law, rng):
    place = int(np.searchsorted(np.cumsum(law), uniform(rng), side="right"))
    return min(place, len(law) - 1)


def verify(target_probs, draft_probs, draft_tokens, rng: np.random.Generator):
    for i, token in enumerate(draft_tokens):
        if uniform(rng) >= target_probs[i, token] / draft_probs[i, token]:
            left = np.clip(target_probs[i] - draft_probs[i], 0, None)
            return [*draft_tokens[:i].tolist(), draw(left / left.sum(), rng)]
    return [*draft_tokens.tolist(), draw(target_probs[-1], rng)]


def biased(target_probs, draft_probs, draft_tokens, rng: np.random.Generator):
    return verify(target_probs[::-1], draft_probs, draft_tokens, rng)
"""


@pytest.mark.parametrize("workers", [1, 2])
def test_what_is_kept_while_traced_is_sampled_in_a_process_that_never_traced(
    tmp_path: Path, workers: int
) -> None:
    """Uniforms that wait for the next call; the same, on the rows in reverse, is told apart."""
    (tmp_path / "mine.py").write_text(POOL)
    config = AuditConfig(workers=workers, scenarios="default", gammas=(2,), tv=0.05)
    right = audit(f"{tmp_path}/mine.py:verify", config=config)
    assert right.verdict is Verdict.PASS
    reasons = {c.message for c in right.checks if c.name.startswith("exact[")}
    assert any("a value of random from an earlier run" in reason for reason in reasons)
    assert audit(f"{tmp_path}/mine.py:biased", config=config).verdict is Verdict.FAIL


def test_in_this_process_it_is_said_what_to_do() -> None:
    space: dict[str, Any] = {}
    exec(compile(POOL, "pool", "exec"), space)
    result = audit(space["verify"], config=AuditConfig(gammas=(1,)))
    assert result.verdict is Verdict.ERROR
    (told,) = {c.message for c in result.checks if c.verdict is Verdict.ERROR}
    assert KEPT in told
    assert "name it as module:function" in told


def test_a_refusal_where_nothing_was_traced_is_the_code_s_own(tmp_path: Path) -> None:
    text = "from specverify.errors import UnsupportedRandomness\n\n\n"
    text += "def verify(target_probs, draft_probs, draft_tokens, rng):\n"
    text += "    raise UnsupportedRandomness('mine', 'here', 'because')\n"
    (tmp_path / "mine.py").write_text(text)
    config = AuditConfig(workers=1, mode="statistical", gammas=(1,))
    result = audit(f"{tmp_path}/mine.py:verify", config=config)
    assert result.verdict is Verdict.ERROR
    assert any("raised UnsupportedRandomness: mine" in c.message for c in result.checks)


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
