"""Temperature, top-k, top-p and min-p: from a model's raw scores to the law that is sampled.

Order and edge rules are those of transformers' logits warpers (temperature, then top-k, then
top-p, then min-p, each seeing what the one before left over), so that a law computed here is the
law that ``generate`` samples. Speculation composes with all of them when they are applied to the
target and to the draft alike.
"""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass
from typing import Any

import numpy as np

from specverify._arrays import Array, ArrayT, is_torch, namespace
from specverify.distributions import check_distribution
from specverify.errors import InvalidInputError

__all__ = ["SamplingParams", "warp_logits", "warp_probs"]


@dataclass(frozen=True)
class SamplingParams:
    """How a next token is sampled from a model's scores.

    Args:
        temperature: Divisor of the logits, finite and at least 0; 0 takes the most probable token,
            the lowest id among equals.
        top_k: Keep tokens scored at least as high as the k-th highest, at least 1; ties with it are
            kept too, and a k above the vocabulary keeps everything. None keeps everything.
        top_p: Keep the smallest set of most probable tokens whose mass reaches ``top_p``, in
            (0, 1]; at least one token. Of equally probable tokens at the edge the higher ids are
            kept. None or 1 keeps everything.
        min_p: Keep tokens with at least ``min_p`` times the highest probability, in [0, 1]. None or
            0 keeps everything.

    Raises:
        InvalidInputError: If a value is outside its range or not a number.
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None

    def __post_init__(self) -> None:
        _check_range("temperature", self.temperature, low=0.0, high=math.inf)
        if not math.isfinite(self.temperature):
            raise InvalidInputError("temperature", f"must be finite, got {self.temperature}")
        if self.top_k is not None:
            _check_top_k(self.top_k)
        if self.top_p is not None:
            _check_range("top_p", self.top_p, low=0.0, high=1.0)
            if self.top_p == 0:
                raise InvalidInputError("top_p", f"must be above 0, got {self.top_p}")
        if self.min_p is not None:
            _check_range("min_p", self.min_p, low=0.0, high=1.0)

    @property
    def is_plain(self) -> bool:
        """Whether the model's own law is sampled unchanged."""
        return (
            self.temperature == 1
            and self.top_k is None
            and self.top_p in (None, 1)
            and self.min_p in (None, 0)
        )


def warp_logits(logits: ArrayT, params: SamplingParams) -> ArrayT:
    """Law of the next token under ``params``, from raw scores.

    Args:
        logits: Unnormalised log probabilities, floating, shape ``(..., vocab)``; ``-inf`` marks a
            token that cannot occur.
        params: Temperature and filters.

    Returns:
        Probabilities, same shape, dtype and kind of array.

    Raises:
        InvalidInputError: If the vocabulary is empty, the dtype is not floating, a score is NaN or
            ``+inf``, or a row has no finite score.

    References:
        Fan et al. (2018), arXiv:1805.04833 (top-k); Holtzman et al. (2020), arXiv:1904.09751,
        section 3.1 (top-p); Nguyen et al. (2024), arXiv:2407.01082 (min-p).
    """
    xp = namespace(logits)
    _check_scores(xp, "logits", logits)
    if params.temperature == 0:
        greedy: ArrayT = _greedy(xp, logits)
        return greedy
    scores = _cool(xp, logits, params.temperature)
    if params.top_k is not None:
        scores = _mask(xp, scores, _in_top_k(scores, params.top_k))
    if params.top_p is not None and params.top_p < 1:
        scores = _mask(xp, scores, _in_top_p(xp, scores, params.top_p))
    if params.min_p is not None:
        scores = _mask(xp, scores, _in_min_p(xp, scores, params.min_p))
    warped: ArrayT = _softmax(scores)
    return warped


def warp_probs(probs: ArrayT, params: SamplingParams) -> ArrayT:
    """Law of the next token under ``params``, from the model's law at temperature 1.

    Args:
        probs: Probabilities, shape ``(..., vocab)``.
        params: Temperature and filters.

    Returns:
        Probabilities, same shape, dtype and kind of array; ``probs`` itself if ``params`` change
        nothing.

    Raises:
        InvalidInputError: If ``probs`` is not a probability vector along its last axis.
    """
    xp = namespace(probs)
    check_distribution("probs", probs)
    if params.is_plain:
        return probs
    if params.temperature == 0:
        greedy: ArrayT = _greedy(xp, probs)
        return greedy
    with np.errstate(divide="ignore"):
        logits: ArrayT = xp.log(probs)
    return warp_logits(logits, params)


def _check_range(argument: str, value: float, *, low: float, high: float) -> None:
    if not low <= value <= high:  # also refuses NaN
        raise InvalidInputError(argument, f"must lie in [{low:g}, {high:g}], got {value}")


def _check_top_k(top_k: int) -> None:
    try:
        whole = operator.index(top_k)
    except TypeError:
        raise InvalidInputError("top_k", f"must be an integer, got {top_k!r}") from None
    if whole < 1:
        raise InvalidInputError("top_k", f"must be at least 1, got {top_k}")


def _check_scores(xp: Any, argument: str, scores: Array) -> None:
    if scores.ndim == 0 or scores.shape[-1] == 0:
        raise InvalidInputError(argument, f"empty vocabulary, shape {tuple(scores.shape)}")
    if not xp.isdtype(scores.dtype, "real floating"):
        raise InvalidInputError(argument, f"needs a floating dtype, got {scores.dtype}")
    top = xp.max(scores, axis=-1)  # NaN wins every comparison of a maximum
    if not bool(xp.all(xp.isfinite(top))):
        infinite = "has a row whose highest score is infinite"
        raise InvalidInputError(
            argument, "has NaN entries" if bool(xp.any(xp.isnan(top))) else infinite
        )


def _greedy(xp: Any, scores: Any) -> Any:
    """Point mass on the highest score: the lowest id among equals, unlike torch's argmax."""
    vocab_size = scores.shape[-1]
    ids = xp.arange(vocab_size, device=getattr(scores, "device", None))
    highest = scores == xp.max(scores, axis=-1, keepdims=True)
    first = xp.min(xp.where(highest, ids, xp.full_like(ids, vocab_size)), axis=-1)
    return xp.astype(xp.expand_dims(first, axis=-1) == ids, scores.dtype)


def _cool(xp: Any, logits: Any, temperature: float) -> Any:
    if temperature == 1:
        return logits
    # A divisor that rounds to zero in the array's dtype would make 0 / 0 of the best token.
    divisor = max(temperature, float(xp.finfo(logits.dtype).smallest_normal))
    with np.errstate(over="ignore"):
        scores = logits / divisor
        if not bool(xp.all(xp.isfinite(xp.max(scores, axis=-1)))):
            scores = (logits - xp.max(logits, axis=-1, keepdims=True)) / divisor
    return scores


def _mask(xp: Any, scores: Any, keep: Any) -> Any:
    return xp.where(keep, scores, xp.full_like(scores, -math.inf))


def _in_top_k(scores: Any, top_k: int) -> Any:
    vocab_size = scores.shape[-1]
    kept = min(top_k, vocab_size)
    if is_torch(scores):
        return scores >= scores.topk(kept, dim=-1).values[..., -1:]
    kth = vocab_size - kept
    return scores >= np.partition(scores, kth, axis=-1)[..., kth : kth + 1]


def _in_top_p(xp: Any, scores: Any, top_p: float) -> Any:
    order = xp.argsort(scores, axis=-1, stable=True)
    ascending = _softmax(xp.take_along_axis(scores, order, axis=-1))
    keep = xp.cumulative_sum(ascending, axis=-1) > 1 - top_p
    keep[..., -1] = True
    if is_torch(scores):
        return keep.scatter(-1, order, keep)
    unsorted = np.empty_like(keep)
    np.put_along_axis(unsorted, order, keep, axis=-1)
    return unsorted


def _in_min_p(xp: Any, scores: Any, min_p: float) -> Any:
    probs = _softmax(scores)
    return probs >= min_p * xp.max(probs, axis=-1, keepdims=True)


def _softmax(scores: Any) -> Any:
    if is_torch(scores):
        return scores.softmax(dim=-1)
    from scipy.special import softmax

    return softmax(scores, axis=-1)
