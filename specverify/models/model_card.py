"""What was trained, on what, and how good it came out: a record and its page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specverify.models.corpus import Corpus
from specverify.models.evaluate import AcceptanceSummary
from specverify.models.trainer import TrainingProgress

__all__ = ["CARD_FILE", "TrainingReport", "model_card"]

CARD_FILE = "MODEL_CARD.md"


@dataclass(frozen=True, kw_only=True)
class TrainingReport:
    """Outcome of a training run.

    Attributes:
        directory: Where the files are.
        seed: Root of all randomness.
        plan: Shapes and steps, as plain values.
        corpus: The text.
        training_tokens: Tokens trained on.
        characters_per_token: Of the held-out text.
        parameters: Numbers in each model.
        held_out_loss: Cross entropy of the target on held-out text, nats a token.
        acceptance: Of each draft, by temperature, on held-out text.
        stages: Last state of each stage: steps, losses, CPU seconds.
    """

    directory: Path
    seed: int
    plan: Mapping[str, Any]
    corpus: Corpus
    training_tokens: int
    characters_per_token: float
    parameters: Mapping[str, int]
    held_out_loss: float
    acceptance: Mapping[str, tuple[AcceptanceSummary, ...]]
    stages: Mapping[str, TrainingProgress]


def model_card(report: TrainingReport) -> str:
    """The report as Markdown."""
    parts = (_models(report), _data(report), _training(report), _quality(report), _limits())
    return "# Model card: a small target and its drafts\n\n" + "\n".join(parts)


def _models(report: TrainingReport) -> str:
    shapes = {"target": report.plan["target"], **report.plan["drafts"]}
    rows = [
        f"| {name} | {shape['num_layers']} | {shape['embed_dim']} | {shape['num_heads']} "
        f"| {report.parameters[name]:,} |"
        for name, shape in shapes.items()
    ]
    head = ["| model | layers | width | heads | parameters |", "|---|---|---|---|---|"]
    return "\n".join(
        [
            "GPT-2 layout (`GPT2LMHeadModel` reads each directory), float16 safetensors, "
            f"byte-level BPE of {report.plan['vocab_size']} tokens, context "
            f"{report.plan['context']}.\n",
            *head,
            *rows,
            "",
        ]
    )


def _data(report: TrainingReport) -> str:
    corpus = report.corpus
    return (
        "## Data and licence\n\n"
        f"- Text: {corpus.name}, {len(corpus.text):,} characters, sha256 `{corpus.sha256}`.\n"
        f"- Source: {corpus.source}. Licence: {corpus.licence}.\n"
        f"- {report.training_tokens:,} training tokens; the last 4 % of every 100,000 characters "
        "are held out.\n"
        "- Weights and tokeniser: Apache-2.0, as this project.\n"
    )


def _training(report: TrainingReport) -> str:
    rows = [
        f"- {name}: {state.steps} steps of {report.plan['batch_size']} windows of "
        f"{report.plan['context']} tokens, {state.cpu_seconds:.0f} CPU seconds; last loss "
        + ", ".join(f"{model} {loss:.3f}" for model, loss in state.losses.items())
        + "."
        for name, state in report.stages.items()
    ]
    return (
        f"## Training\n\nSeed {report.seed}; Muon (hidden matrices) and AdamW (the rest), float32, "
        "one thread. The target learns the text; the drafts learn the target's distributions, by "
        "KL divergence for the first half and by `1 - sum min(target, draft)` for the second.\n\n"
        + "\n".join(rows)
        + "\n"
    )


def _quality(report: TrainingReport) -> str:
    nats = report.held_out_loss
    lines = [
        "## Measured on held-out text, from the stored files\n",
        f"Target: {nats:.3f} nats a token, {nats / report.characters_per_token:.3f} nats a "
        "character.\n",
        "Acceptance rate alpha = `sum min(target, draft)`, both at the same temperature, "
        "positions 16 and later:\n",
        "| draft | T | alpha | s.e. | sd | 10 / 50 / 90 % | lag-1 corr. | by position |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, summaries in report.acceptance.items():
        lines += [_acceptance_row(name, summary) for summary in summaries]
    return "\n".join([*lines, ""])


def _acceptance_row(name: str, summary: AcceptanceSummary) -> str:
    quantiles = " / ".join(f"{value:.2f}" for value in summary.quantiles)
    bins = ", ".join(f"{a}-{b - 1}: {mean:.3f}" for a, b, mean in summary.by_position)
    return (
        f"| {name} | {summary.temperature:g} | {summary.mean:.3f} | {summary.standard_error:.3f} "
        f"| {summary.sd:.3f} | {quantiles} | {summary.lag_one_correlation:.2f} | {bins} |"
    )


def _limits() -> str:
    return (
        "## Use and limits\n\nMade to exercise speculative decoding on real weights that fit into "
        "a repository. The text that they write is pastiche; they know nothing. There is no end-of-"
        "sequence token. Rebuild with `specverify train`; other machines round differently, so the "
        "weights agree in quality, not in bits.\n"
    )
