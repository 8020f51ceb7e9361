"""The training loop shared by the target and its drafts: seeded by step, resumable, no pickles."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from specverify.models.gpt import GPTModel
from specverify.models.muon import Muon

__all__ = ["LossFunction", "TrainingProgress", "draw_windows", "fit"]

LossFunction = Callable[[float, Tensor], Mapping[str, Tensor]]
"""Maps the share of training that is done and token windows to one loss a model."""

_MUON_RATE = 0.02
_ADAM_RATE = 4e-3
_CHECKPOINT_EVERY = 50


@dataclass(frozen=True, kw_only=True)
class TrainingProgress:
    """Where training stands.

    Attributes:
        stage: ``target`` or ``drafts``.
        step: Steps done.
        steps: Steps in all.
        losses: Running mean of each model's loss.
        cpu_seconds: CPU time of this stage, earlier runs of a resumed one included.
    """

    stage: str
    step: int
    steps: int
    losses: Mapping[str, float]
    cpu_seconds: float


def fit(
    stage: str,
    models: Mapping[str, GPTModel],
    loss_function: LossFunction,
    draw: Callable[[int], Tensor],
    *,
    steps: int,
    checkpoint: Path,
    progress: Callable[[TrainingProgress], None] | None = None,
) -> TrainingProgress:
    """Train some models on the same windows, each with its own loss and optimisers.

    Hidden matrices move by Muon, embeddings, biases and norms by AdamW; the rate warms up over ten
    steps and falls linearly over the last 60 %.

    Args:
        stage: Name of the stage, for progress.
        models: Models by name; trained in place.
        loss_function: Losses by name.
        draw: Windows of token ids for a step, int64, shape ``(batch, time)``.
        steps: Optimiser steps.
        checkpoint: File that is written every 50 steps and continued from when it exists.
        progress: Called every 10 steps and at the end.

    Returns:
        The last state.
    """
    optimizers = {name: _optimizers(model) for name, model in models.items()}
    done, losses, before = _restore(checkpoint, models, optimizers)
    started = time.process_time()
    state = _state(stage, done, steps, losses, before)
    for step in range(done, steps):
        for name, loss in loss_function(step / steps, draw(step)).items():
            _update(models[name], optimizers[name], loss, _rate(step, steps))
            losses[name] = 0.97 * losses.get(name, loss.item()) + 0.03 * loss.item()
        last = step + 1 == steps
        state = _state(stage, step + 1, steps, losses, before + time.process_time() - started)
        if progress is not None and (last or (step + 1) % 10 == 0):
            progress(state)
        if last or (step + 1) % _CHECKPOINT_EVERY == 0:
            _save(checkpoint, models, optimizers, state)
    return state


def draw_windows(tokens: Tensor, length: int, batch_size: int, entropy: list[int]) -> Tensor:
    """Windows at random places of a text.

    Args:
        tokens: Ids, shape ``(n,)``.
        length: Tokens in a window.
        batch_size: Number of windows.
        entropy: Seed: the same numbers give the same windows, so a step can be drawn again.

    Returns:
        Ids, shape ``(batch_size, length)``.
    """
    rng = np.random.default_rng(entropy)
    starts = rng.integers(0, len(tokens) - length + 1, batch_size)
    return torch.stack([tokens[start : start + length] for start in starts])


def _optimizers(model: GPTModel) -> list[torch.optim.Optimizer]:
    hidden = [p for p in model.h.parameters() if p.ndim == 2]
    chosen = {id(parameter) for parameter in hidden}
    rest = [p for p in model.parameters() if id(p) not in chosen]
    adam = torch.optim.AdamW(rest, _ADAM_RATE, betas=(0.9, 0.95), weight_decay=0.0, fused=True)
    return [Muon(hidden, lr=_MUON_RATE, weight_decay=0.02), adam]


def _rate(step: int, steps: int) -> float:
    return min(1.0, (step + 1) / 10) * min(1.0, (1 - step / steps) / 0.6 + 0.01)


def _update(
    model: GPTModel, optimizers: list[torch.optim.Optimizer], loss: Tensor, rate: float
) -> None:
    for optimizer in optimizers:
        optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    for optimizer, full_rate in zip(optimizers, (_MUON_RATE, _ADAM_RATE), strict=True):
        for group in optimizer.param_groups:
            group["lr"] = full_rate * rate
        optimizer.step()


def _state(
    stage: str, step: int, steps: int, losses: Mapping[str, float], cpu_seconds: float
) -> TrainingProgress:
    return TrainingProgress(
        stage=stage, step=step, steps=steps, losses=dict(losses), cpu_seconds=cpu_seconds
    )


def _save(
    path: Path,
    models: Mapping[str, GPTModel],
    optimizers: Mapping[str, list[torch.optim.Optimizer]],
    state: TrainingProgress,
) -> None:
    from safetensors.torch import save_file

    tensors: dict[str, Tensor] = {}
    for name, model in models.items():
        tensors |= {f"{name}/model/{key}": value for key, value in model.state_dict().items()}
        for place, optimizer in enumerate(optimizers[name]):
            for index, slots in optimizer.state_dict()["state"].items():
                for slot, value in slots.items():
                    tensors[f"{name}/{place}/{index}/{slot}"] = value
    metadata = {"step": str(state.step), "cpu_seconds": str(state.cpu_seconds)}
    metadata |= {f"loss/{name}": str(loss) for name, loss in state.losses.items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".tmp")
    save_file(tensors, unfinished, metadata)
    os.replace(unfinished, path)  # a checkpoint is there whole or not at all


def _restore(
    path: Path,
    models: Mapping[str, GPTModel],
    optimizers: Mapping[str, list[torch.optim.Optimizer]],
) -> tuple[int, dict[str, float], float]:
    if not path.exists():
        return 0, {}, 0.0
    from safetensors import safe_open
    from safetensors.torch import load_file

    tensors = load_file(path)
    for name, model in models.items():
        prefix = f"{name}/model/"
        model.load_state_dict(
            {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
        )
        for place, optimizer in enumerate(optimizers[name]):
            _restore_optimizer(optimizer, f"{name}/{place}/", tensors)
    with safe_open(path, "pt") as stored:
        metadata = stored.metadata()
    losses = {k.removeprefix("loss/"): float(v) for k, v in metadata.items() if "/" in k}
    return int(metadata["step"]), losses, float(metadata["cpu_seconds"])


def _restore_optimizer(
    optimizer: torch.optim.Optimizer, prefix: str, tensors: Mapping[str, Tensor]
) -> None:
    state: dict[int, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        if key.startswith(prefix):
            index, _, slot = key.removeprefix(prefix).partition("/")
            state.setdefault(int(index), {})[slot] = value
    optimizer.load_state_dict({**optimizer.state_dict(), "state": state})
