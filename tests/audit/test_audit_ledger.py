"""The ledger: what survives a cut, what is refused, and that order is the plan's alone."""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Generator
from pathlib import Path

import msgspec
import numpy as np
import pytest

from specverify.audit import session as session_module
from specverify.audit.config import AuditConfig, Budget
from specverify.audit.executors import InlineExecutor
from specverify.audit.fingerprint import fingerprint
from specverify.audit.frames import MAGIC, intact_frames, make_frame
from specverify.audit.header import make_header, settings_of
from specverify.audit.ledger import Done, Ledger, read_ledger
from specverify.audit.order import Finished, in_order
from specverify.audit.run import audit
from specverify.audit.session import Session
from specverify.audit.tally import Tally
from specverify.audit.wire import Task
from specverify.bugs import ZOO
from specverify.errors import InvalidInputError
from specverify.results import Verdict
from specverify.sampler.verify import speculative_verify

PLANTED = Path(__file__).resolve().parent.parent / "planted" / "biased_numpy.py"
SMALL = AuditConfig(mode="statistical", framework="numpy", gammas=(3,), tv=0.1, isolation="inline")
TARGET = {"name": "t", "form": "verify", "framework": "numpy", "version": None}
HEADER = make_header(TARGET | {"fingerprint": {"source": "aa"}}, SMALL, 5)


def tally_of(*counts: int) -> Tally:
    tally = Tally()
    tally.table("token", (len(counts),))[...] = counts
    return tally


def done(shard: int, *counts: int, arrived: float = 1.0) -> Done:
    return Done(scenario="a", shard=shard, n=10, tally=tally_of(*counts).encode(), arrived=arrived)


def written(path: Path, *shards: Done) -> Path:
    ledger = Ledger(path, HEADER)
    for shard in shards:
        ledger.append(shard)
    ledger.close()
    return path


def reopened(path: Path) -> tuple[Done, ...]:
    ledger = Ledger(path, HEADER)
    ledger.close()
    return ledger.found


# The file


def test_what_is_appended_is_found_again(tmp_path: Path) -> None:
    path = written(tmp_path / "deep" / "ledger", done(0, 1, 2), done(1, 3, 4))
    ledger = Ledger(path, HEADER)
    found = ledger.find(Task(scenario="a", shard=1, n=10))
    assert found is not None
    assert Tally.decode(found.tally).arrays["token"].tolist() == [3, 4]
    assert ledger.find(Task(scenario="a", shard=2, n=10)) is None
    assert ledger.find(Task(scenario="a", shard=1, n=9)) is None
    ledger.close()
    header, shards = read_ledger(path)
    assert header == HEADER
    assert [shard.shard for shard in shards] == [0, 1]


def test_a_file_cut_anywhere_keeps_every_whole_frame_and_can_be_appended_to(tmp_path: Path) -> None:
    path = written(tmp_path / "ledger", done(0, 1), done(1, 2))
    data = path.read_bytes()
    ends = [end for _, end in intact_frames(data, path)]
    near = {end + step for end in ends for step in (-1, 0, 1)}
    for length in sorted({*range(0, len(data), 23), *near} - {len(data) + 1}):
        path.write_bytes(data[:length])
        whole = sum(end <= length for end in ends[1:])
        assert len(reopened(path)) == whole
        written(path, done(7, 9))
        assert [shard.shard for shard in reopened(path)] == [*range(whole), 7]


def test_a_damaged_middle_is_an_error_wherever_it_is(tmp_path: Path) -> None:
    path = written(tmp_path / "ledger", done(0, 1), done(1, 2))
    data = path.read_bytes()
    last = [end for _, end in intact_frames(data, path)][-2]
    for where in range(last):
        broken = bytearray(data)
        broken[where] ^= 0x10
        path.write_bytes(bytes(broken))
        with pytest.raises(InvalidInputError, match=r"is damaged at byte|is not a ledger"):
            reopened(path)
        assert path.read_bytes() == broken  # nothing is cut off or overwritten


def test_a_damaged_or_unwritten_end_is_cut_off(tmp_path: Path) -> None:
    path = written(tmp_path / "ledger", done(0, 1), done(1, 2))
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    assert len(reopened(path)) == 1
    path.write_bytes(data + bytes(4096))
    assert len(reopened(path)) == 2


def test_another_file_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    path.write_text("my precious notes")
    with pytest.raises(InvalidInputError, match="is not a ledger"):
        reopened(path)
    assert path.read_text() == "my precious notes"


def test_frames_of_another_version_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    path.write_bytes(MAGIC + make_frame(msgspec.msgpack.encode({"unknown": 1})))
    with pytest.raises(InvalidInputError, match="another version"):
        reopened(path)


def test_a_ledger_that_is_held_is_refused(tmp_path: Path) -> None:
    held = Ledger(tmp_path / "ledger", HEADER)
    held.append(done(0, 1))
    for fresh in (False, True):
        with pytest.raises(InvalidInputError, match="held by another process"):
            Ledger(tmp_path / "ledger", HEADER, fresh=fresh)
    held.close()
    assert len(reopened(tmp_path / "ledger")) == 1


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"seed": 6}, "seed is 6 here and 5 there"),
        ({"settings": HEADER.settings | {"tv": 0.2}}, "tv is 0.2 here and 0.1 there"),
        ({"settings": HEADER.settings | {"new": 1}}, "new is 1 here and None there"),
        ({"package": "9"}, "package is 9 here"),
        ({"target": HEADER.target | {"name": "u"}}, "target.name is u here and t there"),
        (
            {"target": HEADER.target | {"fingerprint": {"source": "bb"}}},
            "the implementation was edited",
        ),
    ],
)
def test_another_audit_is_refused_by_what_differs(tmp_path: Path, other, said: str) -> None:
    path = written(tmp_path / "ledger", done(0, 1))
    changed = msgspec.structs.replace(HEADER, **other)
    with pytest.raises(InvalidInputError, match=said):
        Ledger(path, changed)
    assert len(reopened(path)) == 1
    ledger = Ledger(path, changed, fresh=True)
    ledger.close()
    assert ledger.found == ()
    assert read_ledger(path)[0] == changed
    assert changed.key() != HEADER.key()


def test_every_setting_is_told_apart_but_limits_and_workers() -> None:
    free = {"workers": 3, "isolation": "auto", "budget": Budget(calls=5), "time_limit": 2.0}
    free |= {"memory_limit": 10**9}
    for name, value in free.items():
        changed = dataclasses.replace(SMALL, **{name: value})
        assert make_header(HEADER.target, changed, 5) == HEADER
    fields = {field.name for field in dataclasses.fields(AuditConfig)}
    assert set(HEADER.settings) == fields - set(free)
    assert set(settings_of(SMALL)) == fields - {"workers", "isolation"}


def test_the_settings_of_a_record_are_those_of_the_audit() -> None:
    config = AuditConfig(
        form="verify",
        gammas=(1, 3),
        checks=("token",),
        budget=Budget(seconds=3.0),
        expected_failures={"joint[*]": "known"},
    )
    assert msgspec.convert(settings_of(config), type=AuditConfig) == config


def test_a_fingerprint_is_that_of_the_defining_file(tmp_path: Path) -> None:
    assert fingerprint(speculative_verify)["source"] is not None
    assert fingerprint(np.linalg.norm)["distribution"] == f"numpy {np.__version__}"
    assert fingerprint(len) == {"source": None, "distribution": None}
    assert fingerprint(speculative_verify) != fingerprint(fingerprint)


# The order


class Shuffled:
    """Runs shards here and hands them over as workers of uneven speed would: out of order."""

    def __init__(self, inner: InlineExecutor, shuffle_seed: int) -> None:
        self.form, self.target = inner.form, inner.target
        self._inner, self._rng = inner, np.random.default_rng(shuffle_seed)

    def run(self, tasks: deque[Task]) -> Generator[tuple[Task, Tally], None, None]:
        ready: list[tuple[Task, Tally]] = []
        for item in self._inner.run(tasks):
            ready.append(item)
            while len(ready) > 5:
                yield ready.pop(self._rng.integers(len(ready)))
        while ready:
            yield ready.pop(self._rng.integers(len(ready)))

    def close(self) -> None:
        self._inner.close()


def sampled(implementation, shuffle_seed: int, config: AuditConfig) -> Session:
    executor = Shuffled(InlineExecutor(implementation, config, 1), shuffle_seed)
    session = Session(executor, config, 1, lambda event: None)
    session.sample()
    return session


CASES = {
    "a bug": (ZOO["resample_from_target"].callable, {}),
    "a call budget": (speculative_verify, {"budget": Budget(calls=3000)}),
}
MANY = dataclasses.replace(SMALL, tv=0.05)


@pytest.mark.parametrize("case", CASES)
def test_a_stop_depends_on_the_order_of_the_plan_alone(case: str) -> None:
    implementation, settings = CASES[case]
    config = dataclasses.replace(MANY, **settings)
    runs = [sampled(implementation, shuffle_seed, config) for shuffle_seed in range(2)]
    assert runs[0].stopped in ("failed", "budget")
    assert runs[1].stopped == runs[0].stopped
    assert runs[0].checks() == runs[1].checks()


def test_counting_shards_as_they_come_would_depend_on_it(monkeypatch) -> None:
    """The negative control of the test above."""

    def as_they_come(executor, tasks, record, clock) -> Generator[Finished, None, None]:
        for task, tally in executor.run(deque(tasks)):
            yield Finished(task, tally, clock())

    monkeypatch.setattr(session_module, "in_order", as_they_come)
    config = dataclasses.replace(MANY, budget=Budget(calls=3000))
    runs = [sampled(speculative_verify, shuffle_seed, config) for shuffle_seed in range(2)]
    assert runs[0].checks() != runs[1].checks()


def test_shards_are_recorded_early_and_counted_in_order(tmp_path: Path) -> None:
    tasks = [Task(scenario="a", shard=shard, n=10) for shard in range(4)]
    broken = tally_of(5)
    broken.error = {"type": "X", "message": "m", "case": {}}
    given = {3: tally_of(3), 1: broken, 0: tally_of(0)}

    class Fixed:
        def run(self, wanted: deque[Task]) -> Generator[tuple[Task, Tally], None, None]:
            assert [task.shard for task in wanted] == [0, 1, 3]
            yield from ((tasks[shard], tally) for shard, tally in given.items())

    ledger = Ledger(tmp_path / "ledger", HEADER)
    ledger.close()
    ledger = Ledger(written(tmp_path / "ledger", done(2, 2)), HEADER)
    counted = in_order(Fixed(), tasks, ledger, lambda: 7.0)  # type: ignore[arg-type]
    assert next(counted).task.shard == 0
    failed = next(counted)
    assert (failed.task.shard, failed.tally.error) == (1, broken.error)
    assert next(counted).task.shard == 2
    counted.close()
    ledger.close()
    # The shard that ended in an error is not on record: taking the audit up tries it again.
    assert [shard.shard for shard in reopened(ledger.path)] == [2, 3, 0]


def test_what_is_appended_is_begun_next_and_counted_last(tmp_path: Path) -> None:
    tasks = [Task(scenario="a", shard=shard, n=10) for shard in range(3)]
    begun: list[int] = []

    class One:
        def run(self, wanted: deque[Task]) -> Generator[tuple[Task, Tally], None, None]:
            while wanted:
                task = wanted.popleft()
                begun.append(task.shard)
                yield task, tally_of(task.shard)

    ledger = Ledger(tmp_path / "ledger", HEADER)
    counted = []
    for finished in in_order(One(), tasks, ledger, lambda: 7.0):  # type: ignore[arg-type]
        counted.append(finished.task.shard)
        if len(tasks) == 3:
            tasks.append(Task(scenario="a", shard=9, n=10))
    ledger.close()
    assert (begun, counted) == ([0, 9, 1, 2], [0, 1, 2, 9])


@pytest.mark.parametrize("name", ["correct", "resample_from_target"])
def test_worker_processes_give_what_one_gives(name: str) -> None:
    config = dataclasses.replace(SMALL, isolation="process")
    results = [
        audit(f"{PLANTED}:{name}", config=dataclasses.replace(config, workers=workers))
        for workers in (1, 2, 3)
    ]
    assert results[0].verdict is (Verdict.PASS if name == "correct" else Verdict.FAIL)
    assert results[0].checks == results[1].checks == results[2].checks
