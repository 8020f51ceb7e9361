"""How good a pair is: loss of the target, and how often the draft agrees, along held-out text."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from specverify.distributions import acceptance_rate
from specverify.errors import InvalidInputError
from specverify.models.gpt import GPTModel
from specverify.warping import SamplingParams, warp_logits

__all__ = ["AcceptanceSummary", "acceptance_along", "held_out_loss", "summarize_acceptance"]

_ROWS = 16
_WARM_UP = 16  # the first tokens have hardly any context and agree less


@dataclass(frozen=True, kw_only=True)
class AcceptanceSummary:
    """Acceptance rates ``sum min(target, draft)`` along texts, positions from 16 on.

    Attributes:
        temperature: Temperature of both models.
        mean: Mean rate.
        standard_error: Of the mean; texts are independent, positions of one text are not.
        sd: Standard deviation over positions.
        quantiles: 10, 50 and 90 % points over positions.
        lag_one_correlation: Correlation of neighbouring positions.
        by_position: Mean rate of each quarter of the context, ``(first, last + 1, mean)``.
    """

    temperature: float
    mean: float
    standard_error: float
    sd: float
    quantiles: tuple[float, float, float]
    lag_one_correlation: float
    by_position: tuple[tuple[int, int, float], ...]


def held_out_loss(model: GPTModel, windows: Tensor) -> float:
    """Mean cross entropy of a model, in nats a token.

    Args:
        model: The model.
        windows: Ids, shape ``(texts, time)``, at most the model's length plus one.
    """
    total = 0.0
    with torch.no_grad():
        for rows in torch.split(windows, _ROWS):
            logits = model(rows[:, :-1]).flatten(0, 1)
            total += float(functional.cross_entropy(logits, rows[:, 1:].flatten(), reduction="sum"))
    return total / (windows.shape[0] * (windows.shape[1] - 1))


def acceptance_along(
    target: GPTModel, draft: GPTModel, windows: Tensor, sampling: SamplingParams
) -> NDArray[np.float64]:
    """Exact acceptance rate after every prefix of given texts.

    Args:
        target: Target model.
        draft: Draft model of the same vocabulary.
        windows: Ids, shape ``(texts, time)``.
        sampling: Temperature and filters of both.

    Returns:
        Rates in [0, 1], shape ``(texts, time)``: entry ``[i, t]`` is the rate of the token that
        follows ``windows[i, : t + 1]``.
    """

    def rates() -> Iterator[Tensor]:
        with torch.no_grad():
            for rows in torch.split(windows, _ROWS):
                target_probs = warp_logits(target(rows).double(), sampling)
                yield acceptance_rate(target_probs, warp_logits(draft(rows).double(), sampling))

    return torch.cat(list(rates())).numpy()


def summarize_acceptance(rates: NDArray[np.float64], temperature: float) -> AcceptanceSummary:
    """Summary of :func:`acceptance_along`.

    Args:
        rates: Rates, shape ``(texts, time)``, more than 32 positions of at least two texts.
        temperature: Temperature that they were computed at, for the record.

    Raises:
        InvalidInputError: If there are too few texts or positions.
    """
    texts, time = rates.shape
    if texts < 2 or time <= 2 * _WARM_UP:
        raise InvalidInputError(
            "rates", f"needs at least 2 texts of 33 positions, got {rates.shape}"
        )
    settled = rates[:, _WARM_UP:]
    edges = [_WARM_UP, *(round(time * part / 4) for part in (1, 2, 3, 4))]
    edges = sorted({edge for edge in edges if edge >= _WARM_UP})
    low, middle, high = np.quantile(settled, (0.1, 0.5, 0.9))
    return AcceptanceSummary(
        temperature=temperature,
        mean=float(settled.mean()),
        standard_error=float(settled.mean(axis=1).std(ddof=1) / np.sqrt(texts)),
        sd=float(settled.std()),
        quantiles=(float(low), float(middle), float(high)),
        lag_one_correlation=float(
            np.corrcoef(settled[:, :-1].ravel(), settled[:, 1:].ravel())[0, 1]
        ),
        by_position=tuple(
            (first, stop, float(rates[:, first:stop].mean()))
            for first, stop in itertools.pairwise(edges)
        ),
    )
