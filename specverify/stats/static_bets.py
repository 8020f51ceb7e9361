"""Bets whose factor depends on the token alone: on known wrong laws and on simple tilts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from specverify.stats._check import Floats, Ints
from specverify.stats.bets import tempered
from specverify.stats.partitions import Partition

__all__ = [
    "CAPS",
    "DILUTIONS",
    "StaticBets",
    "leak_bets",
    "leak_log_factors",
    "named_bets",
    "tilt_bets",
]

Bools: TypeAlias = NDArray[np.bool_]

# A wrong law that holds at some positions or prompts only is met by mixing it with the right one.
DILUTIONS = ((0.99, 0.85), (0.3, 0.1), (0.05, 0.05))
# Clipping levels of tolerant bets: what suits a law depends on how far its largest ratio reaches.
CAPS = (1.5, 3.0, 10.0)
_TILTS = (-1.0, -0.5, -0.2, -0.1, -0.05, 0.05, 0.1, 0.2, 0.5, 1.0)
_WIDEST_TILTED = 16
_SAMPLE = 256
# Weights of known laws, by the total variation that they begin at.
_FAINT_TV, _GROSS_TV = 0.15, 0.75
_FAINT_WEIGHT, _GROSS_WEIGHT = 1.5, 2.0
_LEAK_FACTORS = np.array([2.0, 5.0, 50.0])


@dataclass(frozen=True, eq=False)
class StaticBets:
    """Some bets.

    Attributes:
        names: Names of the alternatives.
        owners: Alternative that each bet is about, int64 shape ``(bets,)``.
        weights: Prior weights that sum to one (or no bets at all), shape ``(bets,)``.
        log_factors: Maps token ids ``(n,)`` to logarithms of factors ``(n, bets)``. Tokens of
            probability zero under the law bring the logarithm of the alternative's own
            probability: no e-value, but what names the alternative that explains them.
    """

    names: tuple[str, ...]
    owners: Ints
    weights: Floats
    log_factors: Callable[[Ints], Floats]


def named_bets(law: Floats, laws: Mapping[str, Floats], *, tolerance: float = 0.0) -> StaticBets:
    """Bets on known wrong laws, each at three dilutions. Equal laws share one law's weight.

    Not all laws weigh the same. A gross law has twice the weight of an ordinary one: it shows
    within a handful of tokens, where one token more is a large part of all. A faint law has half
    as much again: its evidence grows in small steps, and whoever knows it is often alarmed early
    by luck, which a higher bar forgoes.

    Args:
        law: The law under test, shape ``(vocab,)``.
        laws: Known wrong laws by name, same shape.
        tolerance: Total variation that is forgiven.
    """
    rows = list(laws.values())
    caps = CAPS if tolerance else (np.inf,)
    variants = [(mix, share / len(caps), cap) for mix, share in DILUTIONS for cap in caps]
    spans = _spans(law, rows) if tolerance else (np.zeros(len(laws)), np.zeros(len(laws)))

    def log_factors(tokens: Ints) -> Floats:
        ratios = _ratios(law, rows, tokens, tolerant=tolerance > 0)
        columns = []
        for mix, _, cap in variants:
            low, high = ((1 - mix) + mix * span for span in spans)
            base = np.where(law[tokens] > 0, 1.0, 0.0) if not tolerance else 1.0
            factors = (1 - mix) * base + mix * ratios
            columns.append(
                tempered(factors, low[:, None], high[:, None], cap=cap, tolerance=tolerance)
            )
        with np.errstate(divide="ignore"):
            return np.log(np.concatenate(columns).T) if columns else np.zeros((len(tokens), 0))

    shares = np.repeat([share for _, share, _ in variants], len(laws))
    return StaticBets(
        names=tuple(laws),
        owners=np.tile(np.arange(len(laws)), len(variants)),
        weights=shares * np.tile(_shares(law, rows), len(variants)),
        log_factors=log_factors,
    )


def tilt_bets(law: Floats, partitions: list[Partition], *, tolerance: float = 0.0) -> StaticBets:
    """Bets on a law that leans along a partition: factor ``exp(tilt * score) / normaliser``.

    The score runs from -1 in the first cell to 1 in the last, in steps of the cells' mass; along
    the rank that is close to a change of temperature.

    Args:
        law: The law under test, shape ``(vocab,)``.
        partitions: Partitions; those of more than 16 quantiles are left out.
        tolerance: Total variation that is forgiven.
    """
    parts = [part for part in partitions if len(part.probs) <= _WIDEST_TILTED]
    tables = [_tilt_table(part.probs, tolerance) for part in parts]

    def log_factors(tokens: Ints) -> Floats:
        columns = [table[part.cells(tokens)] for part, table in zip(parts, tables, strict=True)]
        if not columns:
            return np.zeros((len(tokens), 0))
        # An impossible token lies in no cell: no tilt explains it, and a tolerant bet waits.
        absent = 0.0 if tolerance else -np.inf
        return np.where(law[tokens, None] > 0, np.concatenate(columns, axis=1), absent)

    size = len(parts) * len(_TILTS)
    return StaticBets(
        names=tuple(part.name for part in parts),
        owners=np.repeat(np.arange(len(parts)), len(_TILTS)),
        weights=np.full(size, 1.0 / max(size, 1)),
        log_factors=log_factors,
    )


def leak_bets(law: Floats, *, tolerance: float) -> StaticBets:
    """Bets on tokens of probability zero, for a law that is known up to a tolerance only.

    Args:
        law: The law under test, shape ``(vocab,)``.
        tolerance: Total variation that is forgiven, above 0.
    """
    size = len(_LEAK_FACTORS) if np.any(law == 0) else 0

    def log_factors(tokens: Ints) -> Floats:
        return leak_log_factors(law[tokens] == 0, tolerance)[:, :size]

    weights = np.full(size, 1.0 / max(size, 1))
    return StaticBets(("support",), np.zeros(size, dtype=np.int64), weights, log_factors)


def leak_log_factors(impossible: Bools, tolerance: float) -> Floats:
    """Logarithms of factors that bet on impossible tokens at three rates, shape ``(n, 3)``.

    Args:
        impossible: Whether each token has probability zero under the law, shape ``(n,)``.
        tolerance: Total variation that is forgiven: the rate that a right engine may leak at.
    """
    gains = np.where(impossible[:, None], np.log(_LEAK_FACTORS), 0.0)
    factors: Floats = gains - np.log1p(tolerance * (_LEAK_FACTORS - 1))
    return factors


def _tilt_table(cell_probs: Floats, tolerance: float) -> Floats:
    """Logarithms of the factors, shape ``(cells, tilts)``."""
    scores = 2 * (np.cumsum(cell_probs) - cell_probs / 2) - 1
    factors = np.exp(np.multiply.outer(scores, np.array(_TILTS)))
    factors /= cell_probs @ factors
    low, high = factors.min(axis=0), factors.max(axis=0)
    return np.log(tempered(factors, low, high, cap=np.inf, tolerance=tolerance))


def _ratios(law: Floats, rows: list[Floats], tokens: Ints, *, tolerant: bool) -> Floats:
    """Alternative over law, shape ``(laws, n)``; over 1 at tokens of probability zero."""
    below = law[tokens]
    above = np.array([row[tokens] for row in rows]).reshape(len(rows), len(tokens))
    if tolerant:
        # Clipped afterwards: a token that the law excludes is worth the cap, no more.
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.nan_to_num(above / below, nan=0.0, posinf=np.inf)
    return above / np.where(below > 0, below, 1.0)


def _shares(law: Floats, rows: list[Floats]) -> Floats:
    """Shares of distinct laws, divided among twins, shape ``(laws,)``; they sum to one."""
    # A sample of the tokens tells laws apart; if it fails to, two laws merely share a weight.
    marks = [(row[:_SAMPLE].tobytes(), row[::_SAMPLE].tobytes()) for row in rows]
    twins = np.array([marks.count(mark) for mark in marks], dtype=np.float64)
    gap = np.empty_like(law)
    shares = np.array([_weight(_distance(row, law, gap)) for row in rows]) / np.maximum(twins, 1.0)
    normalised: Floats = shares / max(float(shares.sum()), 1e-300)
    return normalised


def _weight(tv: float) -> float:
    """Weight of a law at a total variation from the one under test."""
    if tv < _FAINT_TV:
        return _FAINT_WEIGHT
    return _GROSS_WEIGHT if tv >= _GROSS_TV else 1.0


def _distance(row: Floats, law: Floats, room: Floats) -> float:
    """Total variation, worked out in ``room``: no new array for each of many laws."""
    np.subtract(row, law, out=room)
    return 0.5 * float(np.abs(room, out=room).sum())


def _spans(law: Floats, rows: list[Floats]) -> tuple[Floats, Floats]:
    """Least and largest ratio of each alternative over the vocabulary."""
    ratios = _ratios(law, rows, np.arange(len(law)), tolerant=True)
    return ratios.min(axis=1), ratios.max(axis=1)
