"""Easy and hard stretches of text: acceptance driven by a hidden Markov chain over rounds."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from specverify._arrays import FloatArray, IntArray
from specverify.errors import InvalidInputError
from specverify.simulate.acceptance import State
from specverify.simulate.occupancy import Occupancy
from specverify.theory.emitted_length import emitted_length_pmf
from specverify.theory.validation import checked_probability

__all__ = ["MarkovAcceptance"]


class MarkovAcceptance:
    """A hidden state per round sets the alpha of the whole round.

    Runs start in the chain's stationary law. Many rounds are counted without drawing each: the
    time in each state is drawn in blocks, and the rounds spent in one state are one multinomial.

    Args:
        alphas: Acceptance probability in each state, shape ``(states,)``, in [0, 1].
        transition: Probability of each next state (columns) from each state (rows), shape
            ``(states, states)``; every row sums to one. All states must be able to reach one
            common class, so that the stationary law is unique.

    Raises:
        InvalidInputError: If the shapes do not fit, a row does not sum to one, an entry is outside
            [0, 1], or the stationary law is not unique.
    """

    def __init__(self, alphas: ArrayLike, transition: ArrayLike) -> None:
        self.alphas = np.atleast_1d(checked_probability("alphas", alphas))
        self.transition = checked_probability("transition", transition)
        states = len(self.alphas)
        if self.alphas.ndim != 1 or self.transition.shape != (states, states):
            raise InvalidInputError(
                "transition", f"shape {self.transition.shape} does not fit {states} alphas"
            )
        off = np.abs(self.transition.sum(axis=1) - 1).max()
        if off > 1e-9:
            raise InvalidInputError("transition", f"a row does not sum to one (off by {off:.3g})")
        self.stationary = _stationary(self.transition)
        self._step_cdf = np.cumsum(self.transition, axis=1)
        self._occupancy = Occupancy(self.transition)

    def start(self, generator: np.random.Generator, runs: int) -> State:
        """A state from the stationary law for each run."""
        return generator.choice(len(self.alphas), size=runs, p=self.stationary)

    def next_round(
        self, generator: np.random.Generator, state: State, width: int
    ) -> tuple[FloatArray, State]:
        """The state's alpha at every position; then one step of the chain."""
        alphas = np.broadcast_to(self.alphas[state, None], (len(state), width))
        return alphas, _pick(generator, self._step_cdf[state])

    def accepted_counts(
        self,
        generator: np.random.Generator,
        state: State,
        rounds: IntArray,
        gamma: int,
    ) -> tuple[IntArray, State]:
        """Counts of accepted tokens over each run's rounds, shape ``(runs, gamma + 1)``."""
        spent, state = self._occupancy.draw(generator, state, rounds)
        counts = np.zeros((len(rounds), gamma + 1), dtype=np.int64)
        for index, alpha in enumerate(self.alphas):
            counts += generator.multinomial(spent[:, index], emitted_length_pmf(alpha, gamma))
        return counts, state

    def accepted_each(
        self, generator: np.random.Generator, state: State, rounds: int, gamma: int
    ) -> tuple[IntArray, State]:
        """Accepted tokens of each round, shape ``(runs, rounds)``, and the state after them."""
        pmfs = emitted_length_pmf(np.repeat(self.alphas[:, None], gamma, axis=1))
        edges, moves = np.cumsum(pmfs[:, :-1], axis=1).T, self._step_cdf[:, :-1].T
        accepted = np.zeros((rounds, len(state)), dtype=np.int64)
        uniforms = generator.random((rounds, 2, len(state)))
        for counts, (lengths, steps) in zip(accepted, uniforms, strict=True):
            for edge in edges:
                counts += lengths >= edge[state]
            state = sum((steps >= move[state] for move in moves), np.zeros_like(state))
        return accepted.T, state


def _pick(generator: np.random.Generator, cdf: FloatArray) -> IntArray:
    """One column for each row of cumulative probabilities."""
    above = generator.random((len(cdf), 1)) < cdf
    above[:, -1] = True  # a last sum may round below one
    picked: IntArray = np.argmax(above, axis=1)
    return picked


def _stationary(transition: FloatArray) -> FloatArray:
    states = len(transition)
    system = np.vstack([transition.T - np.eye(states), np.ones(states)])
    law, _, rank, _ = np.linalg.lstsq(system, np.append(np.zeros(states), 1.0), rcond=None)
    if rank < states:
        raise InvalidInputError("transition", "has more than one stationary law")
    clipped = np.clip(law, 0, None)
    stationary: FloatArray = clipped / clipped.sum()
    return stationary
