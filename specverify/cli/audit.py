"""``specverify audit TARGET``: is the law right, is the speed right?"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from specverify.cli.options import AsJson, Seed, comma_separated, member, positive_integers
from specverify.cli.progress import progress
from specverify.cli.report import rendered
from specverify.cli.shell import say, write_file
from specverify.errors import UnknownTargetError

if TYPE_CHECKING:
    from specverify.audit.config import AuditConfig
    from specverify.results import AuditResult

__all__ = ["audit", "read_xfails"]

TARGET_HELP = (
    "reference, module:function, path/file.py:function, or an engine listed by `specverify ls`."
)


def audit(
    target: Annotated[str, typer.Argument(metavar="TARGET", help=TARGET_HELP)],
    form: Annotated[
        str | None,
        typer.Option(help="verify, batched, decode or generate; found out if not given."),
    ] = None,
    framework: Annotated[
        str | None, typer.Option(help="torch or numpy; found out if not given.")
    ] = None,
    budget: Annotated[
        str | None, typer.Option(help="The most to spend: 60s, 2m (time) or 200k, 1M (calls).")
    ] = None,
    tv: Annotated[
        float, typer.Option(help="Largest total variation that a pass may leave open.")
    ] = 0.02,
    false_alarm: Annotated[
        float, typer.Option(help="Probability that a correct implementation fails the law.")
    ] = 1e-6,
    declare: Annotated[
        str, typer.Option(help="What TARGET claims: lossless or lossy:X (total variation X).")
    ] = "lossless",
    expect: Annotated[
        str, typer.Option(help="lossless, or standard: then a slower scheme fails.")
    ] = "lossless",
    gamma: Annotated[
        str | None, typer.Option(help="Block sizes to keep of the scenarios': 4, 1,2,4 or 1-4.")
    ] = None,
    checks: Annotated[
        str | None, typer.Option(help="Checks to run, by name or pattern, separated by commas.")
    ] = None,
    xfails: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Expected failures: 'pattern  # reason' lines."),
    ] = None,
    scenarios: Annotated[str, typer.Option(help="default or thorough.")] = "default",
    workers: Annotated[int, typer.Option(min=1, help="Worker processes.")] = 1,
    time_limit: Annotated[
        float, typer.Option(help="Seconds that one call of the implementation may take.")
    ] = 10.0,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write result.json into this folder.")
    ] = None,
    md: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a Markdown report.")
    ] = None,
    junit: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a JUnit XML report.")
    ] = None,
    as_json: AsJson = False,
    seed: Seed = 0,
) -> None:
    """Audit an implementation: are its tokens the target's, and is it as fast as it should be?"""
    from specverify.audit.verdicts import exit_code

    config = _config(
        form=form,
        framework=framework,
        budget=budget,
        tv=tv,
        false_alarm=false_alarm,
        declare=declare,
        expect=expect,
        gamma=gamma,
        checks=checks,
        xfails=xfails,
        scenarios=scenarios,
        workers=workers,
        time_limit=time_limit,
    )
    result = _run(target, config, seed)
    if out is not None:
        write_file("--out", out / "result.json", rendered(result, "json"))
    if md is not None:
        write_file("--md", md, rendered(result, "md"))
    if junit is not None:
        write_file("--junit", junit, rendered(result, "junit"))
    say(rendered(result, "json" if as_json else "text"))
    raise typer.Exit(exit_code(result))


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
        **settings,
    )


def _run(target: str, config: AuditConfig, seed: int) -> AuditResult:
    from specverify.audit.run import audit as run_audit
    from specverify.audit.session import Progress

    with progress() as show:

        def report(state: Progress) -> None:
            if state.stage == "sample":
                show(f"look {state.look + 1}", state.done, state.total, state.scenario)
            elif state.stage == "load":
                show(f"loading {target}", 0, 0, "")

        return run_audit(target, config=config, seed=seed, progress=report, argv=sys.argv)
