"""Rebuild the shipped pair: corpus, tokeniser, target, drafts, measurements, model card."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from specverify.errors import InvalidInputError
from specverify.models.corpus import Corpus, load_corpus
from specverify.models.distill import distillation, likelihood
from specverify.models.evaluate import (
    AcceptanceSummary,
    acceptance_along,
    held_out_loss,
    summarize_acceptance,
)
from specverify.models.gpt import GPTModel
from specverify.models.model_card import CARD_FILE, TrainingReport, model_card
from specverify.models.threads import one_thread
from specverify.models.tokenizer import EncodedText, encode_split, train_tokenizer
from specverify.models.trainer import LossFunction, TrainingProgress, draw_windows, fit
from specverify.models.weights import load_gpt, save_gpt
from specverify.warping import SamplingParams

__all__ = ["FULL", "PRESETS", "TINY", "ModelShape", "TrainingPlan", "train_pair"]

Progress: TypeAlias = Callable[[TrainingProgress], None]

_TEMPERATURES = (1.0, 0.7)
_TARGET = "target"
TOKENIZER_FILE = "tokenizer.json"


@dataclass(frozen=True, kw_only=True)
class ModelShape:
    """Size of a GPT, its vocabulary and context apart."""

    embed_dim: int
    num_heads: int
    num_layers: int


@dataclass(frozen=True, kw_only=True)
class TrainingPlan:
    """Everything but the seed and the text that decides what comes out.

    Attributes:
        vocab_size: Tokens of the byte-level BPE.
        context: Longest sequence; every training window is that long, so that the last position
            is as good as the first.
        batch_size: Windows in a step.
        target: Shape of the target.
        drafts: Shapes of the drafts, by name.
        target_steps: Steps of the target.
        draft_steps: Steps of the drafts, which learn side by side.
        held_out_windows: Texts that the result is measured on.
    """

    vocab_size: int = 1024
    context: int = 256
    batch_size: int = 8
    target: ModelShape = ModelShape(embed_dim=192, num_heads=6, num_layers=6)
    drafts: Mapping[str, ModelShape] = field(
        default_factory=lambda: {"draft-d128": ModelShape(embed_dim=128, num_heads=4, num_layers=1)}
    )
    target_steps: int = 1200
    draft_steps: int = 1200
    held_out_windows: int = 128


FULL = TrainingPlan()
TINY = TrainingPlan(
    vocab_size=288,
    context=48,
    batch_size=4,
    target=ModelShape(embed_dim=32, num_heads=2, num_layers=2),
    drafts={"draft": ModelShape(embed_dim=16, num_heads=2, num_layers=1)},
    target_steps=60,
    draft_steps=60,
    held_out_windows=8,
)
PRESETS: Mapping[str, TrainingPlan] = {"full": FULL, "tiny": TINY}
"""``full`` makes the shipped pair in some 28 minutes of one core, ``tiny`` a toy in seconds."""


def train_pair(
    output_dir: str | Path,
    *,
    seed: int = 0,
    plan: TrainingPlan = FULL,
    corpus: str | Corpus = "auto",
    target_steps: int | None = None,
    draft_steps: int | None = None,
    cache_dir: Path | None = None,
    progress: Progress | None = None,
) -> TrainingReport:
    """Train a target and its drafts and write them with tokeniser and model card.

    An interrupted run is continued by the same call: checkpoints lie in ``output_dir/checkpoints``
    under a name made from plan, seed and text.

    Args:
        output_dir: Where one directory a model, ``tokenizer.json`` and ``MODEL_CARD.md`` go.
        seed: Root of the initial weights and of the training windows.
        plan: Shapes and steps; ``PRESETS`` has two.
        corpus: ``auto``, ``shakespeare``, ``stdlib``, or a text of your own.
        target_steps: Replaces the plan's.
        draft_steps: Replaces the plan's.
        cache_dir: Where a downloaded corpus is kept.
        progress: Called at the start, every ten steps, and at the end of a stage.

    Returns:
        What was trained and how good it is, measured on the files as written (float16).

    Raises:
        InvalidInputError: If a number of steps is below one or the text is too short.
        UnknownTargetError: If the corpus was asked for by name and cannot be had.
        MissingDependencyError: If tokenizers or safetensors are not installed.
    """
    plan = _with_steps(plan, target_steps, draft_steps)
    place, report_to = Path(output_dir), progress or (lambda state: None)
    report_to(_event("corpus", 0))
    text = corpus if isinstance(corpus, Corpus) else load_corpus(corpus, cache_dir=cache_dir)
    tokenizer = train_tokenizer(text.text, plan.vocab_size)
    encoded = encode_split(text.text, tokenizer)
    _check_lengths(plan, encoded)
    report_to(_event("corpus", 1))
    with one_thread():
        directory = place / "checkpoints" / _fingerprint(plan, text, seed)
        models, states = train_stages(
            plan, encoded, seed=seed, directory=directory, progress=report_to
        )
        for name, model in models.items():
            save_gpt(model, place / name, dtype=torch.float16)
        tokenizer.save(str(place / TOKENIZER_FILE))
        report_to(_event("measure", 0))
        report = _measure(place, plan, text, encoded, states, seed)
        report_to(_event("measure", 1))
    (place / CARD_FILE).write_text(model_card(report), "utf-8")
    return report


def train_stages(
    plan: TrainingPlan,
    text: EncodedText,
    *,
    seed: int,
    directory: Path,
    progress: Progress | None = None,
) -> tuple[dict[str, GPTModel], dict[str, TrainingProgress]]:
    """Train the target on the text, then the drafts on the target.

    Args:
        plan: Shapes and steps.
        text: Token ids.
        seed: Root of the initial weights and of the windows.
        directory: Where checkpoints are kept; a finished stage is not trained again.
        progress: Called every ten steps.

    Returns:
        Models by name, ``target`` among them, and the last state of both stages.
    """
    shapes = {_TARGET: plan.target, **plan.drafts}
    models = {name: _new_model(plan, shapes[name], seed, i) for i, name in enumerate(shapes)}
    target, drafts = models[_TARGET], {name: models[name] for name in plan.drafts}

    def stage(
        name: str, index: int, trained: Mapping[str, GPTModel], loss: LossFunction, steps: int
    ) -> TrainingProgress:
        # The target also needs the token after a window; the drafts are told the whole law.
        length = plan.context + (index == 0)

        def draw(step: int) -> Tensor:
            return draw_windows(text.training, length, plan.batch_size, [seed, index, step])

        file = directory / f"{name}.safetensors"
        return fit(name, trained, loss, draw, steps=steps, checkpoint=file, progress=progress)

    first = stage(_TARGET, 0, {_TARGET: target}, likelihood(target), plan.target_steps)
    target.requires_grad_(False)
    second = stage("drafts", 1, drafts, distillation(target, drafts), plan.draft_steps)
    return models, {_TARGET: first, "drafts": second}


def _with_steps(
    plan: TrainingPlan, target_steps: int | None, draft_steps: int | None
) -> TrainingPlan:
    given = {"target_steps": target_steps, "draft_steps": draft_steps}
    changes = {name: steps for name, steps in given.items() if steps is not None}
    for name, steps in changes.items():
        if steps < 1:
            raise InvalidInputError(name, f"must be at least 1, got {steps}")
    return dataclasses.replace(plan, **changes)  # type: ignore[arg-type]


def _check_lengths(plan: TrainingPlan, text: EncodedText) -> None:
    shortest = min(len(text.training), len(text.held_out))
    if shortest <= plan.context:
        raise InvalidInputError(
            "corpus", f"{shortest} tokens are too few for windows of {plan.context + 1}"
        )


def _event(stage: str, step: int) -> TrainingProgress:
    return TrainingProgress(stage=stage, step=step, steps=1, losses={}, cpu_seconds=0.0)


def _fingerprint(plan: TrainingPlan, corpus: Corpus, seed: int) -> str:
    settings = json.dumps([dataclasses.asdict(plan), corpus.sha256, seed], sort_keys=True)
    return hashlib.sha256(settings.encode()).hexdigest()[:16]


def _new_model(plan: TrainingPlan, shape: ModelShape, seed: int, index: int) -> GPTModel:
    state = np.random.SeedSequence([seed, index]).generate_state(1)
    return GPTModel(
        plan.vocab_size,
        shape.embed_dim,
        shape.num_heads,
        shape.num_layers,
        plan.context,
        generator=torch.Generator().manual_seed(int(state[0])),
    )


def _measure(
    place: Path,
    plan: TrainingPlan,
    corpus: Corpus,
    text: EncodedText,
    states: Mapping[str, TrainingProgress],
    seed: int,
) -> TrainingReport:
    target = load_gpt(place / _TARGET)
    drafts = {name: load_gpt(place / name) for name in plan.drafts}
    windows = draw_windows(text.held_out, plan.context + 1, plan.held_out_windows, [seed, 2])

    def acceptance(draft: GPTModel) -> tuple[AcceptanceSummary, ...]:
        rates = {
            t: acceptance_along(target, draft, windows[:, :-1], SamplingParams(temperature=t))
            for t in _TEMPERATURES
        }
        return tuple(summarize_acceptance(values, t) for t, values in rates.items())

    return TrainingReport(
        directory=place,
        seed=seed,
        plan=dataclasses.asdict(plan),
        corpus=corpus,
        training_tokens=len(text.training),
        characters_per_token=text.characters_per_token,
        parameters={n: m.num_parameters() for n, m in {_TARGET: target, **drafts}.items()},
        held_out_loss=held_out_loss(target, windows),
        acceptance={name: acceptance(draft) for name, draft in drafts.items()},
        stages=dict(states),
    )
