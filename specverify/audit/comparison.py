"""Two audits side by side: what got worse, what got better, what cannot be compared."""

from __future__ import annotations

import math
from collections.abc import Iterator
from enum import StrEnum
from typing import Any

import msgspec

from specverify.errors import InvalidInputError
from specverify.results import AuditResult, CheckResult, Verdict

__all__ = ["Change", "Comparison", "Direction", "compare"]

_GRAVITY = {
    Verdict.PASS: 0,
    Verdict.XFAIL: 0,
    Verdict.SKIP: 1,
    Verdict.INCONCLUSIVE: 1,
    Verdict.XPASS: 2,
    Verdict.FAIL: 2,
    Verdict.ERROR: 2,
}


class Direction(StrEnum):
    """Whether a change is for the worse, for the better, or neither by itself."""

    WORSE = "worse"
    BETTER = "better"
    NOTE = "note"


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One difference between two audits.

    Attributes:
        direction: Worse, better or neither.
        subject: A check's name, ``tokens/pass[scenario]``, or a field of the record.
        old: What it was; None where it was not there.
        new: What it is; None where it is gone.
        p_value: Of an equal mean, for measured numbers.
    """

    direction: Direction
    subject: str
    old: Any = None
    new: Any = None
    p_value: float | None = None


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """All differences, the worse first.

    Attributes:
        changes: The differences.
        compared: Checks that both audits have.
        level: Probability that equal implementations show a change of tokens/pass.
    """

    changes: tuple[Change, ...]
    compared: int
    level: float

    @property
    def worse(self) -> tuple[Change, ...]:
        """What got worse."""
        return tuple(c for c in self.changes if c.direction is Direction.WORSE)


def compare(old: AuditResult, new: AuditResult, *, level: float = 1e-6) -> Comparison:
    """Compare an audit with an earlier one, e.g. of the build before.

    A check is worse when its verdict is graver, or when it passed and is not run any more:
    evidence that is lost counts like evidence against. Tokens/pass of each scenario are compared
    by a two-sided normal test of the difference, Bonferroni over scenarios.

    Args:
        old: The earlier audit.
        new: The later one.
        level: Probability that two audits of equal implementations differ in tokens/pass.

    Raises:
        InvalidInputError: If the level is not in (0, 1), or if the audits have no check in common.
    """
    if not 0 < level < 1:
        raise InvalidInputError("level", f"must lie in (0, 1), got {level}")
    before = {check.name: check for check in old.checks}
    after = {check.name: check for check in new.checks}
    common = before.keys() & after.keys()
    if not common:
        raise InvalidInputError(
            "new", f"has no check of the old audit (forms {_form(old)} and {_form(new)})"
        )
    changes = [
        *_verdicts(before, after),
        *_speeds(old.acceptance, new.acceptance, level),
        *_circumstances(old, new),
    ]
    order = list(Direction)
    changes.sort(key=lambda change: order.index(change.direction))
    return Comparison(changes=tuple(changes), compared=len(common), level=level)


def _verdicts(before: dict[str, CheckResult], after: dict[str, CheckResult]) -> Iterator[Change]:
    for name in [*before, *(n for n in after if n not in before)]:
        old = before[name].verdict if name in before else None
        new = after[name].verdict if name in after else None
        if old is not new:
            yield Change(direction=_direction(old, new), subject=name, old=old, new=new)


def _direction(old: Verdict | None, new: Verdict | None) -> Direction:
    if old is None:
        return Direction.WORSE if new is not None and _GRAVITY[new] == 2 else Direction.NOTE
    if new is None:
        return Direction.WORSE if _GRAVITY[old] == 0 else Direction.NOTE
    step = _GRAVITY[new] - _GRAVITY[old]
    if step == 0:
        return Direction.NOTE
    return Direction.WORSE if step > 0 else Direction.BETTER


def _speeds(old: dict[str, Any], new: dict[str, Any], level: float) -> Iterator[Change]:
    names = [n for n in old if n in new and _measured(old[n]) and _measured(new[n])]
    for name in names:
        p_value = _equal_means(old[name], new[name])
        if p_value * len(names) > level:
            continue
        before, after = old[name]["tokens_per_pass"], new[name]["tokens_per_pass"]
        yield Change(
            direction=Direction.WORSE if after < before else Direction.BETTER,
            subject=f"tokens/pass[{name}]",
            old=before,
            new=after,
            p_value=p_value,
        )


def _measured(row: dict[str, Any]) -> bool:
    # A scenario that was not reached has no tokens: a pass emits at least one.
    return bool(row.get("tokens_per_pass")) and row.get("standard_error") is not None


def _equal_means(old: dict[str, Any], new: dict[str, Any]) -> float:
    gap = abs(new["tokens_per_pass"] - old["tokens_per_pass"])
    error = math.hypot(old["standard_error"], new["standard_error"])
    if error == 0:
        # Blocks of one length have no spread; any difference is then a certain one.
        return 1.0 if gap == 0 else 0.0
    return math.erfc(gap / error / math.sqrt(2))


def _circumstances(old: AuditResult, new: AuditResult) -> Iterator[Change]:
    """What else differs: the reader judges whether the two may be compared at all."""
    pairs = {
        "target": (old.target.get("name"), new.target.get("name")),
        "version": (old.target.get("version"), new.target.get("version")),
        "form": (_form(old), _form(new)),
        "seed": (old.seed, new.seed),
        "status": (str(old.status), str(new.status)),
        "false alarm": (
            old.error_budget.get("false_alarm"),
            new.error_budget.get("false_alarm"),
        ),
    }
    packages = [r.environment.get("packages", {}) for r in (old, new)]
    for name in sorted(packages[0].keys() | packages[1].keys()):
        pairs[f"package {name}"] = (packages[0].get(name), packages[1].get(name))
    for subject, (before, after) in pairs.items():
        if before != after:
            yield Change(direction=Direction.NOTE, subject=subject, old=before, new=after)


def _form(result: AuditResult) -> str:
    return str(result.target.get("form"))
