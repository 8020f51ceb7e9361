"""Workers forked from a nursery: what they run, how they end, and what is left when it is gone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import msgspec
import pytest

from specverify.audit.config import AuditConfig
from specverify.audit.launching import (
    Launched,
    Launcher,
    NurseryLauncher,
    SingleLauncher,
    kill,
    launcher,
)
from specverify.audit.run import audit
from specverify.audit.wire import Ready, Setup, read_frame, write_frame
from specverify.errors import UnknownTargetError
from specverify.results import Verdict

linux = pytest.mark.skipif(sys.platform != "linux", reason="workers are forked on Linux alone")
PLANTED = Path(__file__).resolve().parent.parent / "planted" / "biased_numpy.py"


class Started:
    """A worker, and the ends of its streams that are ours."""

    def __init__(self, by: Launcher, errors: Path) -> None:
        source, self.to = os.pipe()
        self.back, sink = os.pipe()
        with errors.open("wb") as file:
            self.process: Launched = by.start(source, sink, file.fileno())
        os.close(source)
        os.close(sink)

    def load(self, target: str, recorder: Path) -> Ready:
        recorder.write_bytes(bytes(8 * 64))
        setup = Setup(
            spec=target,
            form=None,
            framework="numpy",
            seed=0,
            recorder=str(recorder),
            memory_limit=None,
            sys_path=sys.path,
        )
        write_frame(self.to, msgspec.msgpack.encode(setup))
        frame = read_frame(self.back)
        assert frame is not None
        return msgspec.msgpack.decode(frame[1:], type=Ready)

    def close(self) -> None:
        os.close(self.to)
        os.close(self.back)


@contextmanager
def closed(*started: Started) -> Iterator[None]:
    try:
        yield
    finally:
        for one in started:
            one.close()


def test_one_worker_is_a_process_of_its_own_and_several_are_forked(tmp_path: Path) -> None:
    assert isinstance(launcher(f"{PLANTED}:correct", 1), SingleLauncher)
    with closing(launcher(f"{PLANTED}:correct", 2)) as several:
        assert isinstance(several, NurseryLauncher) == (sys.platform == "linux")


@linux
def test_forked_workers_load_the_target_and_end_as_they_end(tmp_path: Path) -> None:
    by = NurseryLauncher()
    two = [Started(by, tmp_path / f"errors-{number}") for number in range(2)]
    with closed(*two):
        readies = [one.load(f"{PLANTED}:correct", tmp_path / "calls") for one in two]
        assert [ready.form for ready in readies] == ["verify", "verify"]
        pids = [one.process.pid for one in two]
        assert len({os.getpid(), *pids}) == 3
        kill(two[0].process)
        assert two[0].process.wait() == -signal.SIGKILL == two[0].process.wait()
    # The other saw the end of its input, which ends it one way or the other.
    assert two[1].process.wait() in (0, 1)
    by.close()


@linux
def test_a_nursery_takes_its_workers_with_it(tmp_path: Path) -> None:
    by = NurseryLauncher()
    one = Started(by, tmp_path / "errors")
    with closed(one):
        one.load(f"{PLANTED}:correct", tmp_path / "calls")
        by.close()
        # Nobody else holds the other end of its output.
        assert read_frame(one.back) is None


@linux
def test_a_nursery_that_is_gone_is_an_end_and_no_error(tmp_path: Path) -> None:
    by = NurseryLauncher()
    first = Started(by, tmp_path / "errors")
    pid = first.process.pid
    assert pid is not None
    os.kill(_parent(pid), signal.SIGKILL)
    assert read_frame(first.back) is None
    second = Started(by, tmp_path / "more-errors")
    with closed(first, second):
        assert read_frame(second.back) is None
        assert second.process.pid is None
        assert first.process.wait() == second.process.wait() == 1
        kill(second.process)
    by.close()


@linux
def test_what_its_imports_say_as_they_end_it_is_told(tmp_path: Path, monkeypatch) -> None:
    """A torch that takes the process with it when it is imported."""
    fatal = "import os, sys\nsys.stderr.write('no such instruction\\n')\nsys.stderr.flush()\n"
    (tmp_path / "torch.py").write_text(f"{fatal}os._exit(1)\n")
    target = tmp_path / "mine.py"
    target.write_text("import torch\ndef verify(target_probs, draft_probs, draft_tokens): ...\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    for workers in (1, 2):
        with pytest.raises(UnknownTargetError, match="no such instruction"):
            audit(f"{target}:verify", config=AuditConfig(workers=workers))


@pytest.mark.parametrize(
    ("text", "needed"),
    [
        ("import torch\n", True),
        ("def f():\n    from torch import nn\n", True),
        ("import torchvision\n", False),
        ("import numpy\n", False),
    ],
)
@linux
def test_torch_is_imported_beforehand_where_the_target_does(
    tmp_path: Path, monkeypatch, text: str, needed: bool
) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "mine.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    for target in (f"{tmp_path}/package/mine.py:verify", "package.mine:verify"):
        with closing(launcher(target, 2)) as found:
            assert isinstance(found, NurseryLauncher)
            assert found.modules == (("torch",) if needed else ())
        assert "package" not in sys.modules


@pytest.mark.parametrize("target", ["reference", "nothing:of:that", "no_such_module:f", ""])
@linux
def test_what_has_no_file_needs_nothing_beforehand(target: str) -> None:
    with closing(launcher(target, 2)) as found:
        assert isinstance(found, NurseryLauncher)
        assert found.modules == ()


def test_the_way_of_starting_changes_no_result() -> None:
    results = [
        audit(f"{PLANTED}:resample_from_target", config=AuditConfig(gammas=(2,), workers=workers))
        for workers in (1, 2)
    ]
    assert results[0].verdict is Verdict.FAIL
    one, two = ([(c.name, c.verdict, c.statistic, c.case) for c in r.checks] for r in results)
    assert one == two


def _parent(pid: int) -> int:
    said = subprocess.check_output(["ps", "-o", "ppid=", "-p", str(pid)], text=True)
    return int(said)
