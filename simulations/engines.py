"""Install each released engine in an environment of its own, audit it there, write the table.

All environments lie over one base environment that holds torch and this project; what an engine
brings lies in its own. A record that exists is kept, so that an interrupted run goes on where it
was. Whatever fails is audited again under another seed before it is written down.

Usage: python simulations/engines.py [--only NAME ...] [--again] [--folder DIR] [--out DIR]
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from engine_faults import told_as
from engine_records import confirmed, markdown, summarise
from engine_table import ENGINES, EngineEntry

ROOT = Path(__file__).resolve().parent.parent
SEEDS = (0, 20260)
"""Seed of every audit, and the one under which failures are audited again."""

# Hypothesis finds the smallest case of a failure.
_REFUSED = 2
"""Exit code of an audit that refuses its settings."""

_BASE = ("torch==2.13.0", "hypothesis>=6.100", "-e", f"{ROOT}[torch]")
_SERVER = ROOT / "tests" / "adapters" / "llama_server.py"


@cache
def base_environment(folder: Path) -> Path:
    """Make the environment below all others, or renew this project's names in it.

    Returns:
        Its interpreter.
    """
    place = folder / "base"
    python, stamp = place / "bin" / "python", place / ".installed"
    if not stamp.exists():
        venv.create(place, with_pip=True)
        _pip(python, python, *_BASE)
        stamp.touch()
    else:  # a name that was announced since then is found only after another installation
        _pip(python, python, "--no-deps", "-e", str(ROOT))
    return python


def environment(entry: EngineEntry, folder: Path) -> Path:
    """Make an engine's environment over the base, unless it exists.

    Returns:
        Its interpreter.
    """
    base, place = base_environment(folder), folder / entry.environment
    python, stamp = place / "bin" / "python", place / ".installed"
    if not stamp.exists():
        venv.create(place, with_pip=False)
        below = _packages(base)
        _packages(python).joinpath("base.pth").write_text(
            f"import site; site.addsitedir({str(below)!r})\n"
        )
        _pip(base, python, *entry.requirements)
        stamp.touch()
    return python


def audit(entry: EngineEntry, python: Path, out: Path, seed: int) -> dict[str, Any]:
    """Run one audit and read what it found.

    Raises:
        RuntimeError: If it wrote no result; with the end of what it said.
    """
    with _server(entry, python) as port:
        target = entry.target.replace("PORT", str(port))
        command = [str(python), "-m", "specverify", "audit", target, *entry.options]
        command += ["--json", "--fresh", "--seed", str(seed), "--out", str(out)]
        variables = os.environ | {"OMP_NUM_THREADS": "1"} | dict(entry.settings)
        done = subprocess.run(command, env=variables, capture_output=True, text=True, cwd=ROOT)
    code = {"exit_code": done.returncode}
    if entry.expect is not None and done.returncode == _REFUSED:
        return code | {"refused": _portable(done.stderr.strip().splitlines()[-1], python)}
    if done.returncode not in (0, 1, 3) or not (out / "result.json").is_file():
        raise RuntimeError(f"exit code {done.returncode}: {done.stderr.strip()[-500:]}")
    return summarise(json.loads(_portable((out / "result.json").read_text(), python))) | code


def record(entry: EngineEntry, folder: Path) -> dict[str, Any]:
    """Install and audit one engine; whatever keeps it from being audited is its record."""
    told = " ".join(["specverify audit", f"'{entry.target}'", *entry.options])
    found: dict[str, Any] = {"version": None, "target": entry.target, "command": told}
    found["install"] = " ".join(["pip install", *entry.requirements])
    found |= {} if entry.expect is None else {"expect": entry.expect}
    place = folder / "audits" / entry.name.replace(" ", "-")
    try:
        python = environment(entry, folder)
        found["version"] = _version(python, entry.package)
        found |= audit(entry, python, place / "first", SEEDS[0])
        if entry.expect is not None:
            found["told"] = told_as(found)
        elif found["failing"]:
            found["again"] = confirmed(found, audit(entry, python, place / "again", SEEDS[1]))
    except (RuntimeError, subprocess.CalledProcessError) as error:
        found["problem"] = str(error)
    return found


@contextmanager
def _server(entry: EngineEntry, python: Path) -> Iterator[int]:
    """llama.cpp's server on a free port while the audit runs, where the entry asks for it."""
    if entry.serve is None:
        yield 0
        return
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    command = [str(python), str(_SERVER), str(port), entry.serve]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()  # it prints its address when it listens
            yield port
        finally:
            process.kill()


def _portable(text: str, python: Path) -> str:
    """The text without this machine's folders."""
    folder = python.parent.parent.parent
    return text.replace(f"{folder}/", "runs/engines/").replace(f"{ROOT}/", "")


def _version(python: Path, package: str) -> str:
    code = f"from importlib.metadata import version; print(version({package!r}))"
    return subprocess.check_output([str(python), "-c", code], text=True).strip()


def _packages(python: Path) -> Path:
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    return Path(subprocess.check_output([str(python), "-c", code], text=True).strip())


def _pip(pip: Path, python: Path, *arguments: str) -> None:
    command = [str(pip), "-m", "pip", "--disable-pip-version-check", "--python", str(python)]
    pinned = ["-c", str(ROOT / "constraints.txt")]
    subprocess.run([*command, "install", "-q", *pinned, *arguments], check=True)


def read(out: Path) -> dict[str, dict[str, Any]]:
    """The records that exist."""
    report = out / "engines.json"
    records: dict[str, dict[str, Any]] = json.loads(report.read_text()) if report.exists() else {}
    return records


def write(name: str, found: dict[str, Any], out: Path) -> None:
    """Add a record to both reports, engines in the order of the table.

    What other runs have written meanwhile is read again and kept.
    """
    records = read(out) | {name: found}
    # A run that began later may know engines that this one does not.
    names = [entry.name for entry in ENGINES if entry.name in records]
    ordered = {name: records[name] for name in (*names, *records)}
    out.mkdir(parents=True, exist_ok=True)
    (out / "engines.json").write_text(json.dumps(ordered, indent=1) + "\n")
    (out / "engines.md").write_text(markdown(ordered))


def main(arguments: list[str] | None = None) -> None:
    """Audit what has no record yet."""
    parser = argparse.ArgumentParser(description="Audit released engines.")
    parser.add_argument("--only", nargs="*", default=[], help="names of audits or environments")
    parser.add_argument("--again", action="store_true", help="audit what has a record, too")
    parser.add_argument("--folder", type=Path, default=ROOT / "runs" / "engines")
    parser.add_argument("--out", type=Path, default=ROOT / "reports" / "engines")
    options = parser.parse_args(arguments)
    folder = options.folder.resolve()
    records = read(options.out)
    for entry in ENGINES:
        wanted = not options.only or {entry.name, entry.environment} & set(options.only)
        kept = entry.name in records and "problem" not in records[entry.name]
        if not wanted or (kept and not options.again):
            continue
        print(f"==> {entry.name}", file=sys.stderr, flush=True)
        found = record(entry, folder)
        said = found.get("problem") or found.get("refused") or found["headline"]
        print(f"    {said}", file=sys.stderr, flush=True)
        write(entry.name, found, options.out)


if __name__ == "__main__":
    main()
