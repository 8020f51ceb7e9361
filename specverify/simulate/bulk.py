"""Many rounds at once: totals of runs with a fixed draft length, without drawing every round."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from specverify._arrays import IntArray
from specverify.simulate.acceptance import AcceptanceProcess, BulkAcceptance, State
from specverify.simulate.policies import GammaPolicy
from specverify.simulate.stopping import StopRule
from specverify.simulate.timing import TimingModel

__all__ = ["Conditions", "Tally", "count_in_bulk"]

_WORTH_COUNTING = 8  # rounds; fewer are drawn one by one


@dataclass(frozen=True)
class Conditions:
    """What all runs of a simulation share."""

    acceptance: AcceptanceProcess
    policy: GammaPolicy
    timing: TimingModel
    stop: StopRule
    generator: np.random.Generator
    bonus: bool


class Tally:
    """Running totals of each run."""

    def __init__(self, runs: int) -> None:
        self.emitted, self.rounds, self.drafted, self.tested, self.accepted = np.zeros(
            (5, runs), dtype=np.int64
        )
        self.full = np.zeros(runs, dtype=np.int64)  # rounds in which all were accepted
        self.time = np.zeros(runs)

    def add(self, runs: IntArray, rounds: IntArray, accepted: IntArray, *, full: IntArray) -> None:
        """Count rounds of some runs."""
        self.rounds[runs] += rounds
        self.accepted[runs] += accepted
        self.full[runs] += full

    def count_emitted(self, *, bonus: bool) -> None:
        """A round emits one more token than it accepts, but for a full accept without bonus."""
        self.tested = self.accepted + self.rounds - self.full
        self.emitted = self.accepted + self.rounds - (0 if bonus else self.full)

    def progress(self, stop: StopRule) -> IntArray:
        """How far each run has come, in the unit of its goal."""
        return self.emitted if stop.unit == "tokens" else self.rounds


def count_in_bulk(
    setting: Conditions, acceptance: BulkAcceptance, gamma: int, wanted: IntArray
) -> Tally:
    """Draw as many rounds at once as cannot pass the goal, and the last few in blocks.

    What is left shrinks geometrically, and since no portion can pass the goal before its last
    round, the law is that of single rounds.

    Args:
        setting: What the runs share.
        acceptance: The process, once more.
        gamma: Drafted tokens of every round.
        wanted: Goal of each run, shape ``(runs,)``.
    """
    tally, state = Tally(len(wanted)), acceptance.start(setting.generator, len(wanted))
    in_tokens = setting.stop.unit == "tokens"
    longest, least = (gamma + int(setting.bonus), _WORTH_COUNTING) if in_tokens else (1, 1)
    kinds = np.arange(gamma + 1)
    while True:
        portion = (wanted - tally.progress(setting.stop)) // longest
        going = np.flatnonzero(portion >= least)
        if not going.size:
            break
        rounds = portion[going]
        counts, state[going] = acceptance.accepted_counts(
            setting.generator, state[going], rounds, gamma
        )
        tally.add(going, rounds, counts @ kinds, full=counts[:, -1])
        tally.count_emitted(bonus=setting.bonus)
    _finish(_Rest(setting, acceptance, gamma, wanted), tally, state)
    tally.drafted = tally.rounds * gamma
    timing, generator = setting.timing, setting.generator
    passes_time = timing.verify_times(generator, tally.rounds, np.full(len(wanted), gamma))
    tally.time = timing.draft_times(generator, tally.drafted) + passes_time
    return tally


class _Rest(NamedTuple):
    setting: Conditions
    acceptance: BulkAcceptance
    gamma: int
    wanted: IntArray


def _finish(rest: _Rest, tally: Tally, state: State) -> None:
    """The last rounds, some of each run at once; those past the goal count for nothing."""
    setting, gamma = rest.setting, rest.gamma
    while True:
        left = rest.wanted - tally.progress(setting.stop)
        going = np.flatnonzero(left > 0)
        if not going.size:
            return
        rounds = _enough(tally, int(left.max()), gamma)
        accepted, state[going] = rest.acceptance.accepted_each(
            setting.generator, state[going], rounds, gamma
        )
        full = accepted == gamma
        gains = accepted + 1 if setting.bonus else accepted + ~full
        before = np.cumsum(gains, axis=1) - gains
        used = before < left[going, None]
        tally.add(
            going,
            np.count_nonzero(used, axis=1),
            np.sum(accepted, axis=1, where=used),
            full=np.count_nonzero(full & used, axis=1),
        )
        tally.count_emitted(bonus=setting.bonus)


def _enough(tally: Tally, left: int, gamma: int) -> int:
    """Rounds that most runs will need for ``left`` tokens."""
    passes = int(tally.rounds.sum())
    mean = tally.emitted.sum() / passes if passes else (gamma + 2) / 2
    return int(np.ceil(left / mean)) + 2
