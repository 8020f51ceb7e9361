"""Audits that are interrupted, killed or taken up again from the command line."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import msgspec
import numpy as np
import pytest
from typer.testing import CliRunner, Result

from specverify.audit.ledger import Ledger, read_ledger
from specverify.audit.tally import Tally
from specverify.cli.main import app
from specverify.report.jsonout import read_result
from specverify.results import AuditResult, RunStatus, Verdict

PLANTED = Path(__file__).resolve().parent.parent / "planted" / "biased_numpy.py"
CORRECT = f"{PLANTED}:correct"
# Laws are sampled here, although tracing would settle them: many shards to be killed between.
SAMPLED = ["--mode", "statistical"]
SMALL = [*SAMPLED, "--gamma", "3", "--tv", "0.1", "--workers", "1", "--seed", "5"]
LONGER = [*SAMPLED, "--gamma", "2,3", "--tv", "0.03", "--seed", "5"]

MISBEHAVING = """
import ctypes, os
import numpy as np
from specverify.sampler.verify import speculative_verify

def _sometimes(what):
    def verify(target_probs, draft_probs, draft_tokens, generator: np.random.Generator):
        if generator.random() < 2e-4:
            what()
        return speculative_verify(target_probs, draft_probs, draft_tokens, generator)
    return verify

def _forever():
    while True:
        pass

hangs = _sometimes(_forever)
aborts = _sometimes(os.abort)
segfaults = _sometimes(lambda: ctypes.string_at(0))
hungry = _sometimes(lambda: np.ones(10**10))
"""


def audit(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["audit", *map(str, arguments)])


def started(*arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "specverify", "audit", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def wait_for_growth(process: subprocess.Popen[str], path: Path, more: int) -> None:
    """Wait until a file has grown by so many bytes, or the process has ended."""
    enough = size(path) + more
    while size(path) < enough and process.poll() is None:
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=0.005)


def workers_of(process: subprocess.Popen[str]) -> list[int]:
    """Handles of a process's children and theirs, which stay valid when the process is gone."""
    return [os.pidfd_open(pid) for pid in descendants(process.pid)]


def descendants(pid: int) -> list[int]:
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except (FileNotFoundError, ProcessLookupError):
        return []
    return [found for child in map(int, children) for found in (child, *descendants(child))]


def has_ended(handle: int) -> bool:
    """Whether a process ends within half a minute."""
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    ended = bool(poll.poll(30_000))
    os.close(handle)
    return ended


def killed(process: subprocess.Popen[str]) -> bool:
    """Kill an audit without notice; whether it was still running. Its workers must end too."""
    workers = workers_of(process)
    running = process.poll() is None
    if running:
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    for worker in workers:
        assert has_ended(worker)
    return running


def counts(folder: Path, result: AuditResult) -> Mapping[str, Mapping[str, list[int]]]:
    """Counts by scenario in the ledger: of the shards that the result was judged by."""
    judged = {
        str(check.params["scenario"]): check.replay["shards"]
        for check in result.checks
        if check.replay is not None
    }
    totals: dict[str, Tally] = {name: Tally() for name in judged}
    for done in sorted(read_ledger(folder / "ledger")[1], key=lambda done: done.shard):
        if done.shard < judged[done.scenario]:
            totals[done.scenario].add(Tally.decode(done.tally))
    return {
        name: {key: array.tolist() for key, array in sorted(total.arrays.items())}
        for name, total in totals.items()
    }


def lasting(result: AuditResult) -> AuditResult:
    """The result without dates, durations, its name and the command."""
    return msgspec.structs.replace(result, run_id="", started="", ended="", timing={}, argv=())


@pytest.mark.parametrize(
    ("kills", "budget"),
    [(5, "6k"), pytest.param(20, "40k", marks=pytest.mark.study)],
)
def test_an_audit_killed_again_and_again_ends_with_the_same_counts(
    tmp_path: Path, kills: int, budget: str
) -> None:
    rng, arguments = np.random.default_rng(kills), [CORRECT, *LONGER, "--budget", budget]
    folder, calm = tmp_path / "killed", tmp_path / "calm"
    for number in range(kills):
        process = started(*arguments, "--workers", 2, "--out", folder)
        if number % 5 == 4:  # at any moment, loading included
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=rng.uniform(0, 1.5))
        else:
            wait_for_growth(process, folder / "ledger", int(rng.integers(1, 4000)))
        assert killed(process), "ended before it could be killed: raise the budget"
        assert not (folder / "result.json").exists()
    last = audit(*arguments, "--workers", 2, "--out", folder)
    assert audit(*arguments, "--workers", 1, "--out", calm).exit_code == last.exit_code
    resumed, undisturbed = read_result(folder), read_result(calm)
    assert resumed.timing["resumed"]["shards"] >= kills // 2
    assert f"resuming: {resumed.timing['resumed']['completions']:,} completions" in last.stderr
    assert undisturbed.timing["resumed"]["shards"] == 0
    assert counts(folder, resumed) == counts(calm, undisturbed)
    assert lasting(resumed) == lasting(undisturbed)


def test_an_audit_killed_while_laws_are_traced_ends_with_the_same_laws(tmp_path: Path) -> None:
    rng, arguments = np.random.default_rng(7), [CORRECT, "--gamma", "1,2", "--seed", "5"]
    folder, calm = tmp_path / "killed", tmp_path / "calm"
    for _ in range(3):
        process = started(*arguments, "--workers", 2, "--budget", "4k", "--out", folder)
        wait_for_growth(process, folder / "ledger", int(rng.integers(1, 1500)))
        assert killed(process), "ended before it could be killed"
    last, same = (
        audit(*arguments, "--workers", number, "--budget", "4k", "--out", place)
        for number, place in ((2, folder), (1, calm))
    )
    assert last.exit_code == same.exit_code
    resumed, undisturbed = read_result(folder), read_result(calm)
    assert resumed.timing["resumed"]["shards"] > 0
    exact = [check for check in resumed.checks if check.name.startswith("exact[")]
    assert any(check.verdict is Verdict.PASS for check in exact)
    assert lasting(resumed) == lasting(undisturbed)


def test_an_interrupted_audit_says_how_it_goes_on(tmp_path: Path) -> None:
    arguments = [CORRECT, *LONGER, "--budget", "8k", "--out", tmp_path]
    process = started(*arguments)
    wait_for_growth(process, tmp_path / "ledger", 3000)
    process.send_signal(signal.SIGINT)
    printed, _ = process.communicate()
    assert process.returncode == 130
    assert "interrupted; the same command resumes it" in printed
    partial = read_result(tmp_path)
    assert partial.status is RunStatus.INTERRUPTED
    again = audit(*arguments)
    assert again.exit_code == 3  # the budget ends before the bound is tight
    assert "completions of an earlier run" in again.stderr
    assert read_result(tmp_path).status is RunStatus.COMPLETE


def test_without_a_folder_a_terminated_audit_resumes_too(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    runs = tmp_path / "specverify" / "runs"
    arguments = [CORRECT, *LONGER, "--budget", "8k"]
    process = started(*arguments)
    assert process.stderr is not None
    while "look" not in process.stderr.readline():
        assert process.poll() is None
    (ledger,) = runs.iterdir()
    wait_for_growth(process, ledger, 100)
    process.send_signal(signal.SIGTERM)
    printed, _ = process.communicate()
    assert process.returncode == 130
    assert "interrupted; the same command resumes it" in printed
    assert "resuming: " in audit(*arguments).stderr
    assert list(runs.iterdir()) == []


@pytest.mark.parametrize(("workers", "processes"), [(1, 1), (2, 3)])
@pytest.mark.parametrize("loop", ["while True: pass", "re.match('(a+)+$', 40 * 'a' + 'b')"])
def test_workers_that_hang_end_with_their_audit(
    tmp_path: Path, loop: str, workers: int, processes: int
) -> None:
    """The second loop is compiled code that lets no other thread of its process run; two workers
    come from a third process.
    """
    marker, file = tmp_path / "marker", tmp_path / "hanging.py"
    file.write_text(
        "import re\n"
        "from pathlib import Path\n"
        "def verify(target_probs, draft_probs, draft_tokens, generator):\n"
        f"    Path({str(marker)!r}).write_text('here')\n"
        f"    {loop}\n"
    )
    arguments = [f"{file}:verify", "--framework", "numpy", *SMALL, "--time-limit", 600]
    process = started(*arguments, "--workers", workers, "--out", tmp_path)
    wait_for_growth(process, marker, 1)
    assert len(workers_of(process)) == processes
    assert killed(process)


def test_a_finished_run_is_judged_again_and_another_is_refused(tmp_path: Path) -> None:
    copy = tmp_path / "mine.py"
    copy.write_text(PLANTED.read_text())
    arguments = [f"{copy}:correct", *SMALL]
    folder = tmp_path / "run"
    assert audit(*arguments, "--out", folder).exit_code == 0
    first = read_result(folder)
    assert audit(*arguments, "--out", folder, "--workers", 2).exit_code == 0
    assert lasting(read_result(folder)) == lasting(first)
    assert read_result(folder).timing["resumed"]["shards"] > 0

    held = Ledger(folder / "ledger", read_ledger(folder / "ledger")[0])
    refused = audit(*arguments, "--out", folder)
    held.close()
    assert refused.exit_code == 2
    assert "held by another process" in refused.stderr
    refused = audit(*arguments[:-1], 6, "--out", folder)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "seed is 6 here and 5 there; --fresh starts anew" in refused.stderr
    copy.write_text(PLANTED.read_text() + "\n")
    edited = audit(*arguments, "--out", folder)
    assert edited.exit_code == 2
    assert "the implementation was edited; --fresh starts anew" in edited.stderr
    assert lasting(read_result(folder)) == lasting(first)
    assert audit(*arguments, "--out", folder, "--fresh").exit_code == 0
    assert read_result(folder).target["fingerprint"] != first.target["fingerprint"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("hangs", "did not return within 0.5 s"),
        ("aborts", "signal SIGABRT"),
        ("segfaults", "signal SIGSEGV"),
        ("hungry", "MemoryError"),
    ],
)
def test_a_misbehaving_implementation_is_a_verdict_on_resuming_too(
    tmp_path: Path, name: str, said: str
) -> None:
    file, folder = tmp_path / "bad.py", tmp_path / "run"
    file.write_text(MISBEHAVING)
    # Under this seed the first two shards are spared.
    arguments = [f"{file}:{name}", "--form", "verify", *SMALL[:-1], 6, "--out", folder]
    arguments += ["--time-limit", 0.5, "--memory-limit", "1G"]
    found = []
    for _ in range(2):
        shown = audit(*arguments)
        assert shown.exit_code == 1, shown.output
        result = read_result(folder)
        assert result.verdict is Verdict.ERROR
        (error,) = (check for check in result.checks if check.verdict is Verdict.ERROR)
        assert said in error.message
        assert len(error.case["draft_tokens"]) == 3
        found.append((error, read_ledger(folder / "ledger")[1]))
    assert "resuming: " in shown.stderr
    assert found[0] == found[1]
    assert found[0][1]  # shards before the error are kept, the one of the error is not
