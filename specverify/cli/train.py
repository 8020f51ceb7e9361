"""``specverify train``: rebuild the shipped pair, or make one from a text of your own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from specverify.cli.options import AsJson, Seed
from specverify.cli.progress import progress
from specverify.cli.shell import say, say_json, say_records, writable_folder
from specverify.errors import InvalidInputError, MissingDependencyError

if TYPE_CHECKING:
    from specverify.models.corpus import Corpus
    from specverify.models.model_card import TrainingReport
    from specverify.models.trainer import TrainingProgress

__all__ = ["train"]

CORPORA = ("auto", "shakespeare", "stdlib")


def train(
    output: Annotated[Path, typer.Argument(metavar="DIR", help="Where the models are written.")],
    preset: Annotated[
        str, typer.Option(help="full (the shipped pair) or tiny (seconds).")
    ] = "full",
    corpus: Annotated[
        str, typer.Option(help="auto, shakespeare, stdlib, or the path of a text file.")
    ] = "auto",
    target_steps: Annotated[
        int | None,
        typer.Option(min=1, help="Training steps of the target; the preset's by default."),
    ] = None,
    draft_steps: Annotated[
        int | None,
        typer.Option(min=1, help="Training steps of the drafts; the preset's by default."),
    ] = None,
    as_json: AsJson = False,
    seed: Seed = 0,
) -> None:
    """Train a target and its drafts; the same command continues an interrupted run."""
    try:
        from specverify.models.train import PRESETS, train_pair
    except ModuleNotFoundError as error:
        raise MissingDependencyError(error.name or "torch", "torch") from error

    if preset not in PRESETS:
        raise InvalidInputError("--preset", f"must be {' or '.join(PRESETS)}, got {preset!r}")
    writable_folder("DIR", output)
    with progress() as show:

        def report(state: TrainingProgress) -> None:
            losses = ", ".join(f"{name} {loss:.3f}" for name, loss in state.losses.items())
            show(state.stage, state.step, state.steps, f"loss: {losses}" if losses else "")

        trained = train_pair(
            output,
            seed=seed,
            plan=PRESETS[preset],
            corpus=_corpus(corpus),
            target_steps=target_steps,
            draft_steps=draft_steps,
            progress=report,
        )
    if as_json:
        say_json(_record(trained))
    else:
        _show(trained)


def _corpus(name: str) -> str | Corpus:
    path = Path(name)
    if name in CORPORA:
        return name
    if not path.is_file():
        raise InvalidInputError(
            "--corpus", f"must be {', '.join(CORPORA)} or a text file; there is no {name!r}"
        )
    from specverify.models.corpus import Corpus

    text = path.read_text(encoding="utf-8", errors="replace")
    return Corpus(name=path.name, text=text, source=str(path), licence="unknown")


def _record(report: TrainingReport) -> dict[str, Any]:
    return {
        "directory": str(report.directory),
        "seed": report.seed,
        "plan": dict(report.plan),
        "corpus": {"name": report.corpus.name, "sha256": report.corpus.sha256},
        "training_tokens": report.training_tokens,
        "held_out_loss": report.held_out_loss,
        "models": _models(report),
    }


def _models(report: TrainingReport) -> list[dict[str, Any]]:
    return [
        {"model": name, "parameters": parameters}
        | {f"alpha at T={s.temperature:g}": s.mean for s in report.acceptance.get(name, ())}
        for name, parameters in report.parameters.items()
    ]


def _show(report: TrainingReport) -> None:
    say(f"{report.directory}: trained on {report.corpus.name}, {report.training_tokens:,} tokens")
    say(f"target: {report.held_out_loss:.3f} nats a token on held-out text")
    say("")
    models = _models(report)
    headers = {key: None for model in models for key in model}
    say_records([headers | model for model in models])
