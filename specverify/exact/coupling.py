"""Exponential races that share noise: a draft and a correction drawn with the same Gumbel vector.

A race with weights ``w`` is won by ``k`` where ``e_j / w_j >= e_k / w_k`` for every ``j``, that is
where ``e_j >= (w_j / w_k) e_k``. What several races said of the same exponentials is a cone, whose
probability has a closed form for one winner and for two.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple, TypeAlias

from specverify.exact.noise import Noise
from specverify.exact.tape import active_tape, refuse
from specverify.exact.tokens import UnreadToken, normalised

__all__ = ["Coupling", "Runner", "cone_probability", "coupled_race"]

# Least factor by which each other exponential exceeds the winner's, by winner.
Cone: TypeAlias = dict[Noise, dict[Noise, float]]

_CONVERGED = 1e-9
# Rounding leaves this much where two races exclude each other; it is booked as slack.
_ROUNDING = 1e-14


class Runner(NamedTuple):
    """An exponential in a race.

    Attributes:
        place: Its place among all keys.
        noise: The uniform under it.
        mirrored: Whether it is made of one minus that uniform.
        rate: Its chance of winning if nothing is known.
    """

    place: int
    noise: Noise
    mirrored: bool
    rate: float


@dataclass(slots=True, eq=False)
class Coupling:
    """Noises that races tied together.

    Attributes:
        noises: The noises, and whether each is read at one minus its uniform.
        cone: What the races that were read said.
        unread: The last race, while nobody has read its winner.
    """

    noises: dict[Noise, bool] = field(default_factory=dict)
    cone: Cone = field(default_factory=dict)
    unread: _Race | None = None

    def resolve(self) -> None:
        """Make the cone current: branches over the winner of the last race."""
        if self.unread is not None:
            race, self.unread = self.unread, None
            self.cone = _narrower(self.cone, race.runners, race.winner())


@dataclass(slots=True, frozen=True, eq=False)
class _Race:
    runners: Sequence[Runner]
    token: UnreadToken

    def winner(self) -> int:
        """Which runner won; branches."""
        place = self.token.read()
        return next(i for i, runner in enumerate(self.runners) if runner.place == place)


def coupled_race(runners: Sequence[Runner], count: int, label: str) -> UnreadToken:
    """Winner of an exponential race whose noise may have decided races before.

    Args:
        runners: Exponentials with distinct noise and their rates, which sum to one.
        count: Number of all keys; those that do not run cannot win.
        label: Name of the operation.

    Returns:
        The winner's place, undecided until it is read.

    Raises:
        UnsupportedRandomness: If three different winners are coupled, or one race uses a uniform
            and another one minus it.
    """
    couplings = [runner.noise.coupling for runner in runners]
    before = list({id(c): c for c in couplings if c is not None}.values())
    for coupling in before:
        coupling.resolve()
    merged = _merged(before, {r.noise: r.mirrored for r in runners}, label)
    probs = _probabilities(merged.cone, runners, label) if before else [r.rate for r in runners]
    spread = [0.0] * count
    for runner, prob in zip(runners, probs, strict=True):
        spread[runner.place] = prob
    token = UnreadToken(tuple(spread), label)
    merged.unread = _Race(runners, token)
    for noise in merged.noises:
        noise.spent, noise.coupling = True, merged
    return token


def _merged(before: Iterable[Coupling], own: dict[Noise, bool], label: str) -> Coupling:
    merged = Coupling()
    for coupling in before:
        merged.noises |= coupling.noises
        merged.cone |= coupling.cone
    if any(merged.noises.get(noise, flag) != flag for noise, flag in own.items()):
        refuse(label, "one race uses a uniform and another one minus it")
    merged.noises |= own
    return merged


def _probabilities(cone: Cone, runners: Sequence[Runner], label: str) -> tuple[float, ...]:
    """Law of the winner, given what the races before said."""
    known = cone_probability(cone, label)
    raw = []
    for index, runner in enumerate(runners):
        won = _narrower(cone, runners, index) if runner.rate > 0 else None
        raw.append(0.0 if won is None else cone_probability(won, label) / known)
    total = math.fsum(raw)
    if abs(total - 1.0) > _CONVERGED:
        refuse(label, f"coupled races whose probabilities sum to {total!r}")
    kept = [prob if prob > _ROUNDING else 0.0 for prob in raw]
    tape = active_tape()
    assert tape is not None
    tape.slack += total - math.fsum(kept)
    return normalised(kept, label)


def _narrower(cone: Cone, runners: Sequence[Runner], winner: int) -> Cone:
    """The cone, where ``runners[winner]`` won a race as well."""
    best = runners[winner]
    factors = dict(cone.get(best.noise, {}))
    for runner in runners:
        if runner is not best:
            least = runner.rate / best.rate
            factors[runner.noise] = max(factors.get(runner.noise, 0.0), least)
    return cone | {best.noise: factors}


def cone_probability(cone: Cone, label: str = "argmax") -> float:
    """Probability that independent standard exponentials lie in a cone.

    Args:
        cone: For each winner, the least factor by which the others exceed it.
        label: Name of the operation.

    Raises:
        UnsupportedRandomness: If more than two winners are tied together.
    """
    probability = 1.0
    for winners in _components(cone):
        if len(winners) > 2:
            refuse(label, "three different winners of races that share noise")
        one = cone[winners[0]]
        if len(winners) == 1:
            probability *= 1.0 / (1.0 + math.fsum(one.values()))
        else:
            probability *= _two_winners(winners[0], winners[1], cone)
    return probability


def _components(cone: Cone) -> list[list[Noise]]:
    """Winners that are tied together by the exponentials that their races share."""
    components: list[tuple[list[Noise], set[Noise]]] = []
    for winner, others in cone.items():
        winners, noises = [winner], {winner, *others}
        apart = []
        for component in components:
            if noises.isdisjoint(component[1]):
                apart.append(component)
            else:
                winners, noises = [*component[0], *winners], noises | component[1]
        components = [*apart, (winners, noises)]
    return [winners for winners, _ in components]


def _two_winners(first: Noise, second: Noise, cone: Cone) -> float:
    """Integral over ``t = e_second / e_first`` of ``1 / (1 + t + sum max(a_j, b_j t))**2``."""
    one, two = cone[first], cone[second]
    low = one.get(second, 0.0)
    back = two.get(first, 0.0)
    high = 1.0 / back if back > 0 else math.inf
    if not low < high:
        return 0.0
    others = [noise for noise in {**one, **two} if noise is not first and noise is not second]
    factors = [(one.get(noise, 0.0), two.get(noise, 0.0)) for noise in others]
    turns = {a / b for a, b in factors if b > 0 and low < a / b < high}
    pieces = pairwise(sorted({low, high, *turns}))
    return math.fsum(_piece(left, right, factors) for left, right in pieces)


def _piece(left: float, right: float, factors: Sequence[tuple[float, float]]) -> float:
    """The integral where no ``max`` changes sides: of ``1 / (constant + slope t)**2``."""
    middle = (left + right) / 2 if math.isfinite(right) else 2 * left + 1
    constant = 1.0 + math.fsum(a for a, b in factors if a >= b * middle)
    slope = 1.0 + math.fsum(b for a, b in factors if a < b * middle)
    start = constant + slope * left
    if math.isinf(right):
        return 1.0 / (slope * start)
    return (right - left) / (start * (constant + slope * right))
