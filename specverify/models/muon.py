"""Muon: momentum whose update is orthogonalised, for the hidden matrices of a transformer."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

__all__ = ["Muon", "orthogonalize"]

# Quintic whose iteration drives all singular values towards one; tuned for speed, not exactness:
# they end between about 0.7 and 1.2 (Jordan et al. 2024).
_QUINTIC = (3.4445, -4.7750, 2.0315)


def orthogonalize(matrix: Tensor, *, steps: int = 5) -> Tensor:
    """Approximate the nearest semi-orthogonal matrix by Newton-Schulz iteration.

    Args:
        matrix: Shape ``(rows, columns)``.
        steps: Iterations.

    Returns:
        Same shape; singular values near one, singular vectors unchanged.

    References:
        Jordan et al. (2024), "Muon: An optimizer for hidden layers in neural networks".
    """
    a, b, c = _QUINTIC
    tall = matrix.shape[0] > matrix.shape[1]
    x = matrix.mT if tall else matrix
    x = x / (x.norm() + 1e-7)
    for _ in range(steps):
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    orthogonal: Tensor = x.mT if tall else x
    return orthogonal


class Muon(torch.optim.Optimizer):
    """Nesterov momentum, orthogonalised.

    A ``(d, 3 d)`` matrix is taken for GPT-2's fused query, key and value map, whose three parts
    are orthogonalised apart.

    Args:
        params: Matrices.
        lr: Learning rate, in units of one: a step moves a square matrix by ``lr`` in spectral norm.
        momentum: Decay of the running mean of gradients.
        weight_decay: Decoupled decay, times ``lr``.
    """

    def __init__(
        self,
        params: Iterable[Tensor],
        *,
        lr: float = 0.02,
        momentum: float = 0.95,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Apply one update; gradients must be there (``closure`` is not supported)."""
        for group in self.param_groups:
            for parameter in group["params"]:
                self._update(parameter, group)

    def _update(self, parameter: Tensor, group: dict[str, Any]) -> None:
        gradient, momentum = parameter.grad, group["momentum"]
        assert gradient is not None, "step before backward"
        mean = self.state[parameter].setdefault("momentum", torch.zeros_like(parameter))
        mean.lerp_(gradient, 1 - momentum)
        update = gradient.lerp(mean, momentum)
        rows, columns = parameter.shape
        parts = update.chunk(3, 1) if columns == 3 * rows else (update,)
        update = torch.cat([orthogonalize(part) for part in parts], 1)
        parameter.mul_(1 - group["lr"] * group["weight_decay"])
        parameter.add_(update, alpha=-group["lr"] * max(1.0, columns / rows) ** 0.5)
