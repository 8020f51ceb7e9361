"""``specverify audit TARGET``: is the law right, is the speed right?"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from specverify.cli import options
from specverify.cli.options import (
    comma_separated,
    member,
    positive_integers,
    size_in_bytes,
    usual_workers,
)
from specverify.cli.progress import progress
from specverify.cli.report import rendered
from specverify.cli.shell import (
    note,
    say,
    terminable,
    writable_file,
    writable_folder,
    write_file,
)
from specverify.errors import UnknownTargetError

if TYPE_CHECKING:
    from specverify.audit.config import AuditConfig
    from specverify.audit.storage import Storage
    from specverify.results import AuditResult

__all__ = ["audit", "read_xfails"]

_NO_SETTINGS = frozenset(
    {"target", "out", "fresh", "md", "junit", "html", "as_json", "seed", "reference", "settings"}
)


def audit(
    context: typer.Context,
    target: options.Target,
    form: options.Form = None,
    framework: options.Framework = None,
    reference: options.Reference = None,
    settings: options.EngineSettings = None,
    mode: options.Mode = "auto",
    budget: options.Budget = None,
    tv: options.TotalVariation = 0.02,
    strict: options.Strict = False,
    false_alarm: options.FalseAlarm = 1e-6,
    declare: options.Declare = "lossless",
    expect: options.Expect = "lossless",
    gamma: options.BlockSizes = None,
    checks: options.Checks = None,
    xfails: options.Xfails = None,
    scenarios: options.Scenarios = "default",
    workers: options.Workers = None,
    time_limit: options.TimeLimit = 10.0,
    memory_limit: options.MemoryLimit = None,
    out: options.OutFolder = None,
    fresh: options.Fresh = False,
    md: options.MarkdownFile = None,
    junit: options.JunitFile = None,
    html: options.HtmlFile = None,
    as_json: options.AsJson = False,
    seed: options.Seed = 0,
) -> None:
    """Audit an implementation: are its tokens the target's, and is it as fast as it should be?"""
    from specverify.audit.storage import Storage

    writable_folder("--out", out)
    for option, path in (("--md", md), ("--junit", junit), ("--html", html)):
        writable_file(option, path)
    storage = Storage(path=None if out is None else out / "ledger", fresh=fresh)
    audited = _with_settings(target, reference, settings)
    result = _run(audited, _config(**_settings(context)), seed, storage)
    from specverify.audit.verdicts import exit_code  # heavy: after the workers have started

    _write_files(result, out=out, md=md, junit=junit, html=html)
    say(rendered(result, "json" if as_json else "text"))
    raise typer.Exit(exit_code(result))


def _with_settings(target: str, reference: str | None, settings: Sequence[str] | None) -> str:
    from specverify.audit.targets import with_settings

    named = [f"reference={reference}"] if reference else []
    return with_settings(target, [*named, *(settings or ())])


def _settings(context: typer.Context) -> dict[str, Any]:
    """The context holds every option once more, by its name: all but a few are settings."""
    return {name: value for name, value in context.params.items() if name not in _NO_SETTINGS}


def _write_files(result: AuditResult, *, out: Path | None, **files: Path | None) -> None:
    if out is not None:
        write_file("--out", out / "result.json", rendered(result, "json"))
    for form, path in files.items():
        if path is not None:
            write_file(f"--{form}", path, rendered(result, form))


def read_xfails(path: Path) -> dict[str, str]:
    """Read expected failures: lines ``pattern  # reason``; empty ones and comments are skipped.

    Raises:
        UnknownTargetError: If there is no such file.
    """
    if not path.is_file():
        raise UnknownTargetError("--xfails", f"no such file: {path}")
    reasons = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        pattern, _, reason = line.partition("#")
        if pattern.strip():
            reasons[pattern.strip()] = reason.strip() or "no reason given"
    return reasons


def _config(
    *,
    form: str | None,
    framework: str | None,
    budget: str | None,
    gamma: str | None,
    checks: str | None,
    xfails: Path | None,
    workers: int | None,
    memory_limit: str | None,
    **settings: Any,
) -> AuditConfig:
    from specverify.audit.config import AuditConfig, Budget
    from specverify.audit.forms import Form, Framework

    return AuditConfig(
        form=None if form is None else member("--form", Form, form),
        framework=None if framework is None else member("--framework", Framework, framework),
        budget=None if budget is None else Budget.parse(budget),
        gammas=None if gamma is None else positive_integers("--gamma", gamma),
        checks=comma_separated(checks),
        expected_failures={} if xfails is None else read_xfails(xfails),
        workers=usual_workers() if workers is None else workers,
        memory_limit=None
        if memory_limit is None
        else size_in_bytes("--memory-limit", memory_limit),
        **settings,
    )


def _run(target: str, config: AuditConfig, seed: int, storage: Storage) -> AuditResult:
    from specverify.audit.progress import Progress
    from specverify.audit.run import audit as run_audit

    with terminable(), progress() as show:

        def report(state: Progress) -> None:
            if state.stage == "sample":
                show(f"look {state.look + 1}", state.done, state.total, state.scenario)
            elif state.stage == "trace":
                show("tracing", state.done, state.total, state.scenario)
            elif state.stage == "load":
                show(f"loading {target}", 0, 0, "")
            elif state.stage == "resume":
                note(f"resuming: {state.done:,} completions of an earlier run")

        return run_audit(
            target, config=config, seed=seed, progress=report, argv=sys.argv, ledger=storage
        )
