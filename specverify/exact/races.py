"""Which of several random keys is the largest: exponential and Gumbel races, and any other keys.

Keys that a common increasing function turns into ``weight_i + sharpness * ln e_i`` with independent
exponentials ``e_i`` have a closed form (Plackett and Luce's), also where they decided such a race
before; others are integrated numerically.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from specverify.exact.coupling import Runner, coupled_race
from specverify.exact.forms import Form
from specverify.exact.quadrature import largest_probabilities
from specverify.exact.reals import SymbolicReal
from specverify.exact.tape import active_tape, refuse
from specverify.exact.tokens import UnreadToken, draw_index, normalised

__all__ = ["ranking", "unread_winner", "winner"]

_SAME_SHARPNESS = 1e-12


def winner(keys: Sequence[Any], label: str = "argmax") -> int:
    """Index of the largest key; branches over the possible winners."""
    token = unread_winner(keys, label)
    return token if isinstance(token, int) else token.read()


def unread_winner(keys: Sequence[Any], label: str = "argmax") -> UnreadToken | int:
    """Index of the largest key, undecided until it is read.

    Args:
        keys: Symbolic reals and numbers; the noise of the symbolic ones must be independent, and
            may have decided other exponential races.
        label: Name of the operation.

    Returns:
        The index itself where it is certain.

    Raises:
        UnsupportedRandomness: If keys share their noise, or it decided what has no closed form
            together with this race.
    """
    symbolic = [index for index, key in enumerate(keys) if type(key) is SymbolicReal]
    certain, constant = _best_constant(keys)
    if not symbolic or certain:
        return constant
    racers = [keys[index] for index in symbolic]
    _check_distinct(racers, label)
    bar = float(keys[constant]) if constant >= 0 else -math.inf
    if bar == -math.inf or all(racer.support()[0] >= bar for racer in racers):
        bar = -math.inf
        if len(racers) == 1:
            return symbolic[0]
    weights = _race_weights(racers) if bar == -math.inf else None
    if weights is not None:
        runners = [
            Runner(place, racer.noise, racer.mirrored, weight)
            for place, racer, weight in zip(symbolic, racers, weights, strict=True)
        ]
        return coupled_race(runners, len(keys), label)
    probs = _integrated(racers, bar, label)
    spread = [0.0] * len(keys)
    for index, prob in zip([*symbolic, constant], probs, strict=False):
        spread[index] = prob
    return UnreadToken(tuple(spread), label)


def _integrated(racers: Sequence[SymbolicReal], bar: float, label: str) -> tuple[float, ...]:
    """Winning probabilities by integration; the noise is spent for good."""
    _settle(racers, label)
    probs, slack = largest_probabilities(racers, bar)
    tape = active_tape()
    assert tape is not None
    tape.slack += slack
    for racer in racers:
        racer.noise.spent = True
    return probs


def ranking(keys: Sequence[Any], count: int, label: str = "topk") -> list[int]:
    """Indices of the ``count`` largest keys, the largest first.

    Raises:
        UnsupportedRandomness: If the keys are not one fresh exponential or Gumbel race.
    """
    symbolic = [index for index, key in enumerate(keys) if type(key) is SymbolicReal]
    fixed = [index for index, key in enumerate(keys) if type(key) is not SymbolicReal]
    racers = [keys[index] for index in symbolic]
    _check_distinct(racers, label)
    _settle(racers, label)
    if any(float(keys[index]) > -math.inf for index in fixed) and any(
        float(keys[index]) > min(racer.support()[0] for racer in racers) for index in fixed
    ):
        refuse(label, "constants compete with random keys")
    weights = _race_weights(racers)
    if weights is None:
        refuse(label, "random keys that are no exponential race")
    left, order = list(range(len(racers))), list[int]()
    while left and len(order) < count:
        probs = normalised([weights[index] for index in left], label)
        order.append(symbolic[left.pop(draw_index(probs, label))])
    for racer in racers:
        racer.noise.spent = True
    fixed.sort(key=lambda index: -float(keys[index]))
    return (order + fixed)[:count]


def _best_constant(keys: Sequence[Any]) -> tuple[bool, int]:
    """Whether a number surely wins (NaN does, as in the libraries); index of the largest, or -1."""
    best = -1
    for index, key in enumerate(keys):
        if type(key) is SymbolicReal:
            continue
        if key != key or key == math.inf:
            return True, index
        if best < 0 or key > keys[best]:
            best = index
    return False, best


def _check_distinct(racers: Sequence[SymbolicReal], label: str) -> None:
    if len({id(racer.noise) for racer in racers}) != len(racers):
        refuse(label, "keys share one random value")
    for racer in racers:
        racer.noise.settle(label, after_race=True)


def _settle(racers: Sequence[SymbolicReal], label: str) -> None:
    for racer in racers:
        racer.noise.settle(label)


def _race_weights(racers: Sequence[SymbolicReal]) -> tuple[float, ...] | None:
    """Winning probabilities in closed form, or None where there is none."""
    if any(racer.noise.low > 0.0 or racer.noise.high < 1.0 for racer in racers):
        return None
    lines = _log_lines([racer.form for racer in racers])
    if lines is None:
        return None
    heights, sharpness = lines
    if sharpness >= 0:
        return None
    top = max(heights)
    # argmax of A_i + B ln e_i with B < 0 is argmin of e_i / exp(A_i / -B): rates exp(A_i / -B).
    return normalised([math.exp((height - top) / -sharpness) for height in heights], "race")


def _log_lines(forms: Sequence[Form]) -> tuple[list[float], float] | None:
    """Heights A_i and common B with key_i increasing in ``A_i + B ln e_i``."""
    kinds = {form.kind for form in forms}
    if len(kinds) != 1 or any(form.chain for form in forms):
        return None
    lines = [_log_line(form) for form in forms]
    if any(line is None for line in lines) or not _one_transform(forms):
        return None
    heights = [line[0] for line in lines if line is not None]
    slopes = [line[1] for line in lines if line is not None]
    if max(slopes) - min(slopes) > _SAME_SHARPNESS * abs(slopes[0]):
        return None
    return heights, slopes[0]


def _log_line(form: Form) -> tuple[float, float] | None:
    kind, shift, scale, _ = form
    if kind == "L":
        return shift, scale
    if kind == "P":
        return (math.log(scale), shift) if scale > 0 else (-math.log(-scale), -shift)
    if kind == "E":
        return (math.log(scale), 1.0) if scale > 0 else (-math.log(-scale), -1.0)
    if kind == "Q" and scale > 0:
        return (-math.log(shift), -1.0) if shift > 0 else (math.log(-shift), 1.0)
    if kind == "U":
        return 0.0, -1.0 if scale > 0 else 1.0
    return None


def _one_transform(forms: Sequence[Form]) -> bool:
    """Whether what :func:`_log_line` drops is the same for all."""
    kind = forms[0].kind
    if kind == "E":
        return len({form.shift for form in forms}) == 1 and _one_sign(f.scale for f in forms)
    if kind == "P":
        return _one_sign(form.scale for form in forms)
    if kind == "Q":
        return len({form.scale for form in forms}) == 1 and _one_sign(f.shift for f in forms)
    if kind == "U":
        return len({(form.shift, form.scale) for form in forms}) == 1
    return True


def _one_sign(values: Any) -> bool:
    return len({value > 0 for value in values}) == 1
