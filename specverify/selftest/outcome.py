"""What a self-test found: one row a member of the zoo."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from specverify.bugs import Role
from specverify.results import Verdict

__all__ = ["Row", "SelftestResult", "Sighting"]


@dataclass(frozen=True, kw_only=True)
class Sighting:
    """What one way of looking saw of a member.

    Attributes:
        verdict: ``fail`` or ``error`` where a defect of what the member is said to spoil was
            seen, ``pass`` where the law was found right, else ``inconclusive``.
        way: How it was looked at, e.g. ``"audit"``.
        check: The check that speaks, with its scenario.
        position: First position (0-based) where the law breaks, if known.
        named: Name of the known bug that the diagnosis gives, if any.
        siblings: Others that it names beside it.
        calls: Calls of the implementation, or random paths of an exact law.
        note: Anything else, for people.
    """

    verdict: Verdict
    way: str
    check: str = ""
    position: int | None = None
    named: str | None = None
    siblings: tuple[str, ...] = ()
    calls: int = 0
    note: str = ""

    @property
    def caught(self) -> bool:
        """Whether a defect was seen."""
        return self.verdict in (Verdict.FAIL, Verdict.ERROR)


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One member in the detection table.

    Attributes:
        name: The member.
        role: Bug, control or lossy.
        kind: In which form it was audited.
        stage: Where the defect sits.
        effect: What it spoils.
        tv: Exact total variation of the law on its scene; None of a counter.
        verdict: What the suite said of it.
        right: Whether that is what it ought to say.
        way: How it was caught, or the ways in which it passed.
        check: The check that caught it, with its scenario.
        position: First position (0-based) where the law breaks, if known.
        named: What the diagnosis calls it: its name, ``"sibling NAME"``, another's, or nothing.
        calls: Calls of the implementation, or paths of its exact law, until the verdict.
        median: Median observations to an alarm of the e-process on its scene; None where the law
            is blind.
        oracle: The same of an oracle that bets on the very bug.
        fixed_n: Observations at which one chi-square test has a power of 90 %.
        large_vocab_median: Median tokens to an alarm on one row of a large vocabulary; only in a
            thorough self-test, of members with a closed-form law.
        note: What went wrong, if anything.
    """

    name: str
    role: str
    kind: str
    stage: str
    effect: str
    tv: float | None
    verdict: str
    right: bool
    way: str
    check: str = ""
    position: int | None = None
    named: str = ""
    calls: int = 0
    median: float | None = None
    oracle: float | None = None
    fixed_n: float | None = None
    large_vocab_median: float | None = None
    note: str = ""


class SelftestResult(msgspec.Struct, frozen=True, kw_only=True):
    """The whole table.

    Attributes:
        seed: Root of every draw.
        thorough: Whether it was the full study.
        level: False-alarm level of every audit, and of the samples in the table.
        rows: One a member, bugs first.
    """

    seed: int
    thorough: bool
    level: float
    rows: tuple[Row, ...]

    @property
    def wrong(self) -> tuple[str, ...]:
        """Members of which the suite did not say what it ought to."""
        return tuple(row.name for row in self.rows if not row.right)

    @property
    def summary(self) -> str:
        """One line: how many fail and pass, and who should not have."""
        parts = []
        for role, plural, wanted in _WANTED:
            rows = [row for row in self.rows if row.role == role]
            if rows:
                right = sum(row.right for row in rows)
                noun = plural if len(rows) != 1 else plural.removesuffix("s")
                parts.append(f"{len(rows)} {noun}: {right} {wanted}")
        return ", ".join(parts) + (f"; wrong: {', '.join(self.wrong)}" if self.wrong else "")


_WANTED = (
    (Role.BUG, "bugs", "fail"),
    (Role.CONTROL, "controls", "pass"),
    (Role.LOSSY, "declared lossy", "pass as declared and fail undeclared"),
)
