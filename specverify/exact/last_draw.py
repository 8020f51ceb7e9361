"""Enumeration that does not branch over a draw from the vocabulary where it is a path's last."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from specverify._arrays import FloatArray
from specverify.exact.interception import Session, interception
from specverify.exact.outcomes import frozen_outcome
from specverify.exact.paths import run_path
from specverify.exact.tape import ReplayDivergence, Step, Tape, refuse
from specverify.exact.tokens import UnreadToken

__all__ = ["LastDraws"]

_PAD = -1


class _Leaf(NamedTuple):
    """How one index of a draw came out: what was emitted, and whether more was chosen after it."""

    emitted: tuple[Any, ...]
    last: bool


@dataclass(slots=True)
class _Draw:
    """A draw from the vocabulary: the mass before it, its law, and what some indices led to."""

    mass: float
    probs: FloatArray
    tried: set[int] = field(default_factory=set)
    leaves: dict[int, _Leaf] = field(default_factory=dict)


class LastDraws:
    """The law of what a function emits: its last token by rows, not by paths.

    Args:
        vocab_size: Tokens of the vocabulary, 4 at least; choices among so many (give or take one)
            are draws of a token.
        drafts: Ids whose draws are always followed: code may compare a draw with them.
        probes: Other indices to try.

    Attributes:
        rows: Mass of each last token, by the tokens before it.
        invalid: Masses of ids outside the vocabulary.
        exceptions: Masses of exceptions.
        runs: Runs of the function.
    """

    def __init__(self, vocab_size: int, drafts: tuple[int, ...], probes: int) -> None:
        self.vocab_size, self.drafts, self.probes = vocab_size, drafts, max(probes, 2)
        self.rows: dict[tuple[int, ...], FloatArray] = {}
        self.invalid: list[float] = []
        self.exceptions: dict[str, list[float]] = {}
        self.runs = 0
        self._draws: dict[tuple[int, ...], _Draw] = {}

    def explore(self, fn: Callable[[], Any]) -> None:
        """Run every path of ``fn``, which returns the emitted tokens.

        Raises:
            UnsupportedRandomness: If a draw's index is not the emitted token.
            ReplayDivergence: If a second run of a path differs.
        """
        frontier: list[tuple[Step, ...]] = [()]
        with interception(fn) as session:
            while frontier:
                prefix = frontier.pop()
                tape, outcome = run_path(fn, prefix, session, _emitted)
                if not self.runs:
                    _check_again(fn, tape, outcome, session)
                self.runs += 1
                self._book(tape, outcome)
                frontier.extend(self._siblings(tape, len(prefix)))
            for draw in self._draws.values():
                self._spread(draw)

    def _is_draw(self, step: Step) -> bool:
        return len(step.probs) >= self.vocab_size - 1

    def _siblings(self, tape: Tape, known: int) -> list[tuple[Step, ...]]:
        found = []
        for place in range(known, len(tape.steps)):
            step, head = tape.steps[place], tuple(tape.steps[:place])
            others = self._followed(step, head) if self._is_draw(step) else range(len(step.probs))
            for index in others:
                if index != step.pick and step.probs[index] > 0.0:
                    found.append((*head, step._replace(pick=index)))
        return found

    def _followed(self, step: Step, head: tuple[Step, ...]) -> set[int]:
        """Indices of a draw that are run: the likeliest, the drafted ids, and the probes."""
        probs = np.array(step.probs)
        plain = np.setdiff1d(np.flatnonzero(probs), self.drafts)
        places = np.linspace(0, max(len(plain) - 1, 0), min(self.probes, len(plain))).astype(int)
        spaced = plain[places]
        tried = {step.pick, *(d for d in self.drafts if d < len(probs)), *spaced.tolist()}
        mass = float(np.prod([s.probs[s.pick] for s in head]))
        draw = self._draws.setdefault(_picks(head), _Draw(mass, probs))
        draw.tried |= tried
        return tried

    def _book(self, tape: Tape, outcome: Any) -> None:
        if isinstance(outcome, str):
            self.exceptions.setdefault(outcome, []).append(tape.mass)
            return
        for place, step in enumerate(tape.steps):
            if self._is_draw(step):
                self._note(tape, place, outcome)
        *before, last = outcome
        if type(last) is UnreadToken:
            self._add_row(tuple(before), tape.mass * np.array(last.probs))
        else:
            self._add(outcome, tape.mass)

    def _note(self, tape: Tape, place: int, outcome: tuple[Any, ...]) -> None:
        head, step = tuple(tape.steps[:place]), tape.steps[place]
        self._followed(step, head)
        leaf = _Leaf(outcome, place == len(tape.steps) - 1)
        self._draws[_picks(head)].leaves[step.pick] = leaf

    def _add(self, emitted: tuple[Any, ...], mass: float) -> None:
        row = np.zeros(self.vocab_size)
        inside = all(isinstance(token, int) and 0 <= token < self.vocab_size for token in emitted)
        if not inside:
            self.invalid.append(mass)
            return
        row[emitted[-1]] = mass
        self._add_row(emitted[:-1], row)

    def _add_row(self, before: tuple[int, ...], row: FloatArray) -> None:
        if len(row) > self.vocab_size:
            self.invalid.append(float(row[self.vocab_size :].sum()))
        padded = np.zeros(self.vocab_size)
        padded[: len(row)] = row[: self.vocab_size]
        self.rows[before] = self.rows.get(before, 0.0) + padded

    def _spread(self, draw: _Draw) -> None:
        """The indices of a draw that were not run emit themselves, as the probes have shown."""
        rest = draw.mass * draw.probs
        rest[list(draw.tried)] = 0.0
        if not rest.any():
            return
        before, sign, shift = self._pattern(draw)
        tokens = shift + sign * np.arange(len(rest))
        inside = (tokens >= 0) & (tokens < self.vocab_size)
        self.invalid.append(float(rest[~inside].sum()))
        row = np.zeros(self.vocab_size)
        row[tokens[inside]] = rest[inside]
        self._add_row(before, row)

    def _pattern(self, draw: _Draw) -> tuple[tuple[int, ...], int, int]:
        """What precedes the token, and how it follows from the index: itself, or mirrored."""
        plain = {k: leaf for k, leaf in draw.leaves.items() if k not in self.drafts}
        heads = {leaf.emitted[:-1] for leaf in plain.values()}
        if len(plain) > 1 and len(heads) == 1 and all(leaf.last for leaf in plain.values()):
            for sign in (1, -1):
                shifts = {leaf.emitted[-1] - sign * index for index, leaf in plain.items()}
                if len(shifts) == 1:
                    return heads.pop(), sign, shifts.pop()
        refuse("a draw from the vocabulary", "is not what the function emits last")


def _picks(head: tuple[Step, ...]) -> tuple[int, ...]:
    return tuple(step.pick for step in head)


def _emitted(value: Any) -> tuple[Any, ...]:
    """Emitted tokens as a flat tuple without padding; only the last may be unread."""
    frozen, _ = frozen_outcome(value)
    tokens = frozen if isinstance(frozen, tuple) else (frozen,)
    while len(tokens) == 1 and isinstance(tokens[0], tuple):
        tokens = tokens[0]
    while tokens and type(tokens[-1]) is int and tokens[-1] == _PAD:
        tokens = tokens[:-1]
    if not tokens:
        raise ValueError("nothing was emitted")
    if any(type(token) is UnreadToken for token in tokens[:-1]):
        refuse("the emitted tokens", "hold a token that was never read before their last")
    return tokens


def _check_again(fn: Callable[[], Any], tape: Tape, outcome: Any, session: Session) -> None:
    """Notice hidden state, and draws that are not traced."""
    again, repeated = run_path(fn, tuple(tape.steps), session, _emitted)
    if len(again.steps) != len(tape.steps) or _comparable(repeated) != _comparable(outcome):
        session.check_untouched()
        raise ReplayDivergence("the same choices gave two outcomes: the code keeps state")


def _comparable(outcome: Any) -> Any:
    if isinstance(outcome, str):
        return outcome
    return tuple(token.probs if type(token) is UnreadToken else token for token in outcome)
