"""vLLM's rejection sampler from its released wheel, without the rest of vLLM and without a GPU.

Only the sampler's own file is loaded (:mod:`specverify.adapters.vllm_files`). Its kernels' text is
run over a small stand-in of Triton's language (:mod:`specverify.adapters.vllm_kernels`), which the
exact tracer sees through; the first calls of every shape are made in Triton's interpreter too, and
must emit the same. The rule, the uniforms and the exponentials are vLLM's.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from specverify.adapters.vllm_files import load_sampler
from specverify.adapters.vllm_kernels import Device, plain_rows
from specverify.adapters.vllm_sampler import VllmSampler
from specverify.errors import SpecVerifyError
from specverify.exact.tape import active_tape

__all__ = ["Compared", "Rows", "VllmRejectionSampler", "drawn", "tile_of"]

Rows: TypeAlias = Callable[..., Tensor]
"""Fetches the rows that kernels wrote: the ids, and how many of each count."""

_COMPARED = 2
"""Calls of each shape that Triton's interpreter makes too."""

_METHODS = ("standard", "synthetic", "fly")

_LONG, _STRETCH = 4096, 256
"""Tokens of a row that is drawn from in two steps, and of the stretch that the first one draws."""


class Compared:
    """Runs samplers on a device, the first calls of each shape in Triton's interpreter as well.

    Args:
        traced: What stands for functions of the kernels while the exact tracer runs.
        together: Whether the tracer runs a launch at once, and not each row when it is looked at:
            where what one launch gives decides what the next one is handed.
    """

    def __init__(
        self, traced: dict[str, Callable[..., Any]] | None = None, *, together: bool = False
    ) -> None:
        self._device, self._traced = Device(lockstep=True), Device(traced)
        self._together = together
        self._calls: dict[tuple[int, ...], int] = {}

    def __call__(self, sample: Callable[[Rows], Tensor], shape: tuple[int, ...]) -> Tensor:
        """What ``sample`` gives with its kernels on a device.

        Args:
            sample: Gives the emitted ids; draws from torch's global generator alone.
            shape: Shape of its rows, ``(batch, gamma, vocab)``.

        Raises:
            SpecVerifyError: If Triton's interpreter gives something else.
        """
        tile = tile_of(shape[-1])
        if active_tape() is not None:
            with self._traced.running(tile, None if self._together else shape[0]) as launches:
                return sample(launches.rows)
        self._calls[shape] = self._calls.get(shape, 0) + 1
        state = torch.get_rng_state()
        with self._device.running(tile) as launches:
            found = sample(launches.rows)
        if self._calls[shape] <= _COMPARED:
            torch.set_rng_state(state)
            with np.errstate(all="ignore"):  # lanes beyond the vocabulary hold anything
                expected = sample(plain_rows)
            if not torch.equal(found, expected):
                raise SpecVerifyError(
                    f"the stand-in of Triton's language gave {found.tolist()}, Triton's "
                    f"interpreter {expected.tolist()}"
                )
        return found


def drawn(rows: Tensor) -> Tensor:
    """A token from each row; of a long one a stretch first, then a token in it, as it is quicker.

    Args:
        rows: Probabilities, shape ``(batch, vocab)``.

    Returns:
        Ids, int64, shape ``(batch, 1)``.
    """
    vocab = rows.shape[-1]
    if vocab < _LONG:
        return torch.multinomial(rows, 1)
    padded = pad(rows.double(), (0, -vocab % _STRETCH))
    stretches = padded.reshape(len(rows), -1, _STRETCH)
    chosen = torch.multinomial(stretches.sum(-1), 1)
    within = torch.multinomial(stretches[torch.arange(len(rows)), chosen[:, 0]], 1)
    return chosen * _STRETCH + within


def tile_of(vocab_size: int) -> int:
    """The smallest tile that holds a vocabulary."""
    return 1 << (vocab_size - 1).bit_length()


class VllmRejectionSampler(VllmSampler):
    """``rejection_sample`` of vLLM's v1 sampler; a batch of blocks at temperature 1.

    Random numbers come from torch's global generator. The bonus token, which vLLM takes from its
    ordinary sampler, is drawn here. Logits are the logarithms of the target's probabilities.
    """

    methods = _METHODS

    def _load(self) -> None:
        self._sample = load_sampler("v1/sample/rejection_sampler.py").rejection_sample
        self._run = Compared()

    def __call__(self, target_probs: Tensor, draft_probs: Tensor, draft_tokens: Tensor) -> Tensor:
        """Emitted ids, padded with -1, shape ``(batch, gamma + 1)``."""

        def sample(rows: Rows) -> Tensor:
            return rows(self._emitted(target_probs, draft_probs, draft_tokens))

        return self._run(sample, tuple(draft_probs.shape))

    def _emitted(self, target: Tensor, draft: Tensor, tokens: Tensor) -> Tensor:
        batch, gamma, vocab = draft.shape
        # Everything is in float32 there.
        emitted: Tensor = self._sample(
            tokens.reshape(-1).to(torch.int32),
            [gamma] * batch,
            gamma,
            gamma * torch.arange(1, batch + 1, dtype=torch.int32),
            None if self._given else draft.reshape(-1, vocab).float(),
            target[:, :-1].reshape(-1, vocab).float().log(),
            drawn(target[:, -1]),
            self._requests(target),
            **self._settings(gamma),
        )
        return emitted

    def _requests(self, target: Tensor) -> SimpleNamespace:
        greedy = (target == 1).any(dim=-1).all(dim=-1) & self._greedy
        return SimpleNamespace(
            all_greedy=bool(greedy.all()),
            all_random=not greedy.any(),
            temperature=torch.where(greedy, 0.0, 1.0),
            generators={},
        )

    def _settings(self, gamma: int) -> dict[str, Any]:
        if self._method == "synthetic":
            rates = torch.full((gamma,), self._rate)
            return {"synthetic_mode": True, "synthetic_conditional_rates": rates}
        if self._method == "fly":
            return {"fly_window_size": self._window, "fly_entropy_threshold": self._entropy}
        return {}
