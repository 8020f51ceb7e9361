"""How many rounds a chain spends in each state: blocks of rounds at a time, from exact tables."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from specverify._arrays import FloatArray, IntArray

__all__ = ["Occupancy"]

_MOST_ENTRIES = 2**16


class _Table(NamedTuple):
    """Joint law of the time spent in each state and of the state after a block of rounds.

    ``cdf`` holds the cumulative law from start state ``s`` between ``s`` and ``s + 1``;
    ``spent``, shape ``(outcomes, states)``, and ``end`` say what its entries stand for.
    """

    cdf: FloatArray
    spent: IntArray
    end: IntArray


class Occupancy:
    """Draws the time that a Markov chain spends in its states.

    The joint law of a block of 1, 2, 4, ... rounds is found by squaring: the law of twice as many
    is a convolution in the counts and a matrix product in the states. A draw is then one search in
    a table for as many rounds as the table still fits in memory.

    Args:
        transition: Probabilities of each next state (columns) from each state (rows), shape
            ``(states, states)``.
    """

    def __init__(self, transition: FloatArray) -> None:
        states = len(transition)
        # Counts of all states but the last: the last has the remaining rounds.
        law = np.zeros((states, states, *(2,) * (states - 1)))
        for state in range(states):
            count = [int(state == other) for other in range(states - 1)]
            place: tuple[int | slice, ...] = (state, slice(None), *count)
            law[place] = transition[state]
        self._law: FloatArray = law  # of the largest block so far
        self._states = states
        self._tables: list[_Table] = []

    def draw(
        self, generator: np.random.Generator, state: IntArray, rounds: IntArray
    ) -> tuple[IntArray, IntArray]:
        """Rounds spent in each state, shape ``(runs, states)``, and the state after the last.

        Args:
            generator: Source of randomness.
            state: State in the first round, shape ``(runs,)``.
            rounds: Rounds of each run, shape ``(runs,)``.
        """
        state, left = state.copy(), rounds.copy()
        spent = np.zeros((len(rounds), self._states), dtype=np.int64)
        level = self._highest(int(rounds.max(initial=0)))
        while level >= 0:
            going = np.flatnonzero(left >= 2**level)
            if not going.size:
                level -= 1
                continue
            table = self._table(level)
            here = state[going]
            found = np.searchsorted(table.cdf, generator.random(len(going)) + here, side="right")
            # A uniform just below one may round up into the next state's part of the table.
            found = np.minimum(found, (here + 1) * (len(table.cdf) // self._states) - 1)
            spent[going] += table.spent[found]
            state[going] = table.end[found]
            left[going] -= 2**level
        return spent, state

    def _highest(self, rounds: int) -> int:
        """The largest block of use, of those that fit."""
        level = 0
        while 2 ** (level + 1) <= rounds and self._fits(2 ** (level + 1)):
            level += 1
        return level

    def _fits(self, rounds: int) -> bool:
        entries: int = self._states**2 * (rounds + 1) ** (self._states - 1)
        return entries <= _MOST_ENTRIES

    def _table(self, level: int) -> _Table:
        while len(self._tables) <= level:
            rounds = 2 ** len(self._tables)
            if rounds > 1:
                self._law = _doubled(self._law)
            self._tables.append(_table(self._law, rounds))
        return self._tables[level]


def _doubled(law: FloatArray) -> FloatArray:
    """The joint law of twice as many rounds; rounding leaves errors of about 1e-16."""
    axes = tuple(range(2, law.ndim))
    if not axes:
        return law
    size = 2 * law.shape[-1] - 1
    image = np.fft.rfftn(law, s=(size,) * len(axes), axes=axes)
    twice = np.fft.irfftn(
        np.einsum("ik...,kj...->ij...", image, image), s=(size,) * len(axes), axes=axes
    )
    return np.clip(twice, 0, None)


def _table(law: FloatArray, rounds: int) -> _Table:
    states = len(law)
    flat = law.reshape(states, -1)
    keep = np.flatnonzero(flat.max(axis=0) > 1e-18)  # not the impossible, nor rounding's dust
    cdf = np.cumsum(flat[:, keep], axis=1)
    cdf /= cdf[:, -1:]
    end, *counts = np.unravel_index(keep, law.shape[1:])
    first = np.array(counts, dtype=np.int64).reshape(states - 1, len(keep))
    spent = np.vstack([first, rounds - first.sum(axis=0)]).T
    return _Table(
        (cdf + np.arange(states)[:, None]).ravel(),
        np.tile(spent, (states, 1)),
        np.tile(end, states),
    )
