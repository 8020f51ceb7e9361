"""Checks of a recorded audit, run again from their seeds: does what failed fail in the same way?"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Sequence
from contextlib import closing
from typing import Any

import msgspec

from specverify.audit.config import AuditConfig, matches
from specverify.audit.executors import Executor
from specverify.audit.header import Header, differences, make_header
from specverify.audit.progress import Callback, Progress
from specverify.audit.run import make_executor
from specverify.audit.session import Session
from specverify.audit.terms import SUSPICIOUS
from specverify.errors import InvalidInputError, UnknownTargetError
from specverify.results import AuditResult, CheckResult, Verdict

__all__ = ["Replay", "Replayed", "choose_checks", "replay"]

_COMPARED = ("verdict", "n", "statistic", "p_value", "e_value", "tv", "message")


class Replayed(msgspec.Struct, frozen=True, kw_only=True):
    """One check, as it was recorded and as it came out again.

    Attributes:
        name: Name of the check.
        recorded: The record.
        replayed: What was found now.
        differing: Names of the fields that differ; of another seed's run only the verdict is
            compared.
    """

    name: str
    recorded: CheckResult
    replayed: CheckResult
    differing: tuple[str, ...]


class Replay(msgspec.Struct, frozen=True, kw_only=True):
    """Checks run again.

    Attributes:
        seed: Root seed of the new run.
        checks: The checks.
        changed: What is not as it was when they were recorded, in words.
        reproduced: Whether all of them came out as recorded.
    """

    seed: int
    checks: tuple[Replayed, ...]
    changed: tuple[str, ...]
    reproduced: bool


def choose_checks(result: AuditResult, pattern: str | None = None) -> tuple[CheckResult, ...]:
    """Checks to replay.

    Args:
        result: A recorded audit.
        pattern: Name of a check, its family, or a shell pattern; the failed ones when None, else
            those that ended in an error, else those whose counts were suspicious.

    Returns:
        The checks; empty where nothing was wrong.

    Raises:
        UnknownTargetError: If no check has such a name.
    """
    if pattern is None:
        for wrong in (_failed, _ended_in_error, _suspicious):
            if found := tuple(check for check in result.checks if wrong(check)):
                return found
        return ()
    found = tuple(check for check in result.checks if matches(check.name, pattern))
    if not found:
        names = [check.name for check in result.checks]
        close = difflib.get_close_matches(pattern, names, n=3) or names[:3]
        text = f"no check {pattern!r} in this run; did you mean {' or '.join(close)}?"
        raise UnknownTargetError("check", text)
    return found


def replay(
    result: AuditResult,
    checks: Sequence[CheckResult],
    *,
    seed: int | None = None,
    workers: int = 1,
    progress: Callback | None = None,
) -> Replay:
    """Run the scenarios of some checks again, with as many completions as were judged.

    Args:
        result: The recorded audit.
        checks: Checks of it.
        seed: Another root seed, to see whether a verdict depends on it; the record's when None.
        workers: Worker processes.
        progress: Called when the target is loaded and before every scenario.

    Raises:
        InvalidInputError: If the record does not say how to run it again.
        UnknownTargetError: If the target is not there any more.
    """
    _refuse_unrepeatable(result, checks)
    config = dataclasses.replace(
        msgspec.convert(result.settings, type=AuditConfig), workers=workers
    )
    root = result.seed if seed is None else seed
    tell: Callback = progress or (lambda event: None)
    tell(Progress(stage="load"))
    with closing(make_executor(result.target["spec"], config, root)) as executor:
        changed = tuple(_changes(result, executor, config))
        session = Session(executor, config, root, tell)
        for number, (name, where) in enumerate(_scenarios(checks).items()):
            tell(Progress(stage="sample", done=number, total=len(checks), scenario=name))
            session.sample_again(name, **where)
    compared = _COMPARED if root == result.seed else ("verdict",)
    pairs = _pairs(checks, session.checks(), compared)
    same = not any(pair.differing for pair in pairs)
    return Replay(seed=root, checks=pairs, changed=changed, reproduced=same)


def _pairs(
    checks: Sequence[CheckResult], found: Sequence[CheckResult], compared: Sequence[str]
) -> tuple[Replayed, ...]:
    by_name = {check.name: check for check in found}
    return tuple(_compare(check, by_name[check.name], compared) for check in checks)


def _scenarios(checks: Sequence[CheckResult]) -> dict[str, dict[str, Any]]:
    """How far each scenario was taken, and whether a smallest case was looked for."""
    searched = {check.params["scenario"] for check in checks if _is_searched(check)}
    return {
        name: {key: where[key] for key in ("look", "shards", "exact") if key in where}
        | {"search": name in searched}
        for check in checks
        if (where := check.replay) is not None and (name := check.params["scenario"])
    }


def _is_searched(check: CheckResult) -> bool:
    """Whether the case of a check is one of exact laws, which enumerating gives again."""
    return check.case is not None and "kind" in check.case


def _refuse_unrepeatable(result: AuditResult, checks: Sequence[CheckResult]) -> None:
    if not result.settings:
        text = "has no settings to run it again by: an earlier version recorded it"
        raise InvalidInputError("run", text)
    if result.target.get("spec") is None:
        text = (
            f"audited the callable {result.target['name']} that a program handed over; "
            "only named targets can be found again"
        )
        raise InvalidInputError("run", text)
    for check in checks:
        if check.replay is None:
            raise InvalidInputError("check", f"{check.name} was not run: {check.message}")


def _changes(result: AuditResult, executor: Executor, config: AuditConfig) -> list[str]:
    now = make_header(executor.target, config, result.seed)
    package = result.environment.get("packages", {}).get("specdec-verify", now.package)
    target = {key: result.target.get(key) for key in now.target}
    then = Header(
        format=now.format,
        package=package,
        target=target,
        settings=now.settings,
        seed=now.seed,
    )
    return differences(then, now)


def _compare(recorded: CheckResult, replayed: CheckResult, compared: Sequence[str]) -> Replayed:
    names = [*compared, "case"] if _is_searched(recorded) else compared
    differing = tuple(name for name in names if getattr(recorded, name) != getattr(replayed, name))
    return Replayed(name=recorded.name, recorded=recorded, replayed=replayed, differing=differing)


def _failed(check: CheckResult) -> bool:
    return check.verdict is Verdict.FAIL


def _ended_in_error(check: CheckResult) -> bool:
    return check.verdict is Verdict.ERROR


def _suspicious(check: CheckResult) -> bool:
    doubt = check.params.get("chi_square_p")
    return check.verdict is Verdict.INCONCLUSIVE and doubt is not None and doubt <= SUSPICIOUS
