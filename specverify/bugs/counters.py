"""The numbers that an engine reports about a run, and what must hold between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from specverify._arrays import FloatArray
from specverify.bugs.staged import normalised

__all__ = ["PassRecord", "Report", "broken_identities", "count", "leading_run", "logprobs"]


@dataclass(frozen=True, kw_only=True)
class PassRecord:
    """One pass of a correct run, with all that a counter may look at.

    Attributes:
        flags: Whether each drafted token passes its own test, those after a rejection too.
        emitted: Emitted ids; of a sequence that ended, those past its end as well.
        kept: How many of them the completion took.
        laws: The target's law at T = 1 of each emitted token, shape ``(len(emitted), vocab)``.
    """

    flags: tuple[bool, ...]
    emitted: tuple[int, ...]
    kept: int
    laws: FloatArray = field(repr=False, compare=False)

    @property
    def n_accepted(self) -> int:
        """Length of the accepted prefix."""
        return leading_run(self.flags)


@dataclass(frozen=True, kw_only=True)
class Report:
    """What an engine says about a run.

    Attributes:
        passes: Target passes.
        drafted: Drafted tokens.
        tested: Drafted tokens that were tested: up to the first rejection of each pass.
        accepted: Accepted drafts.
        emitted: Tokens of the completion.
        logprobs: Log probability of each of them at the run's temperature, in nats.
    """

    passes: int
    drafted: int
    tested: int
    accepted: int
    emitted: int
    logprobs: tuple[float, ...]

    @property
    def acceptance(self) -> float:
        """Accepted over drafted, as most engines print it; 0 for no drafts."""
        return self.accepted / self.drafted if self.drafted else 0.0

    @property
    def acceptance_rate(self) -> float:
        """Accepted over tested, which estimates alpha; 0 for no drafts."""
        return self.accepted / self.tested if self.tested else 0.0

    @property
    def tokens_per_pass(self) -> float:
        """Emitted tokens a pass; 0 for no passes."""
        return self.emitted / self.passes if self.passes else 0.0


def leading_run(flags: Sequence[bool]) -> int:
    """Number of true flags before the first false one."""
    return (*flags, False).index(False)


def count(records: Sequence[PassRecord], *, temperature: float = 1.0) -> Report:
    """Count a run the right way.

    Args:
        records: The passes.
        temperature: Temperature that the run was sampled at, above 0.
    """
    return Report(
        passes=len(records),
        drafted=sum(len(record.flags) for record in records),
        tested=sum(min(record.n_accepted + 1, len(record.flags)) for record in records),
        accepted=sum(record.n_accepted for record in records),
        emitted=sum(record.kept for record in records),
        logprobs=logprobs(records, temperature=temperature),
    )


def logprobs(records: Sequence[PassRecord], *, temperature: float) -> tuple[float, ...]:
    """Log probability, in nats, of each token that the completion took."""
    values: list[float] = []
    for record in records:
        laws = normalised(record.laws[: record.kept] ** (1 / temperature))
        chosen = laws[np.arange(record.kept), list(record.emitted[: record.kept])]
        values.extend(np.log(chosen).tolist())
    return tuple(values)


def broken_identities(
    report: Report, records: Sequence[PassRecord], *, temperature: float = 1.0
) -> list[str]:
    """Which quantities of a report do not follow from the run that it describes.

    The first identities need the report alone; the others compare it with the run.

    Args:
        report: What is claimed.
        records: What happened.
        temperature: Temperature that the run was sampled at, above 0.

    Returns:
        Identities and names of quantities, empty for an honest report.
    """
    broken = []
    if not report.accepted <= report.tested <= report.drafted:
        broken.append("accepted <= tested <= drafted")
    if not report.emitted <= report.accepted + report.passes:
        broken.append("emitted <= accepted + passes")
    honest = count(records, temperature=temperature)
    for name in ("passes", "drafted", "tested", "accepted", "emitted"):
        if getattr(report, name) != getattr(honest, name):
            broken.append(name)
    if len(report.logprobs) != len(honest.logprobs) or not np.allclose(
        report.logprobs, honest.logprobs, rtol=0, atol=1e-9
    ):
        broken.append("logprobs")
    return broken
