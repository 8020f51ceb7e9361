"""``specverify measure``: what a pair of models does on this machine, beside what theory says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from specverify.cli.options import AsJson, Seed, positive_integers
from specverify.cli.progress import progress
from specverify.cli.shell import say, say_json, say_records
from specverify.errors import MissingDependencyError

if TYPE_CHECKING:
    from specverify.models.measure import Estimate, PairMeasurement

__all__ = ["measure", "measurement_record", "measurement_row", "measurement_sentence"]


def measure(
    pair: Annotated[
        str, typer.Argument(help="shipped, a directory of `specverify train`, or a target's name.")
    ] = "shipped",
    draft: Annotated[
        str | None, typer.Option(help="Which draft of the pair, or the draft's own name.")
    ] = None,
    gamma: Annotated[str, typer.Option(help="Drafted tokens a pass: 4, 1,2,4 or 1-8.")] = "4",
    temperature: Annotated[float, typer.Option(help="Temperature of both models.")] = 1.0,
    top_k: Annotated[int | None, typer.Option(help="Top-k of both models.")] = None,
    top_p: Annotated[float | None, typer.Option(help="Top-p of both models.")] = None,
    min_p: Annotated[float | None, typer.Option(help="Min-p of both models.")] = None,
    tokens: Annotated[int, typer.Option(help="New tokens of each completion.")] = 96,
    rounds: Annotated[int, typer.Option(help="Times that every prompt is completed.")] = 3,
    dtype: Annotated[str, typer.Option(help="float32, float64 or bfloat16.")] = "float32",
    as_json: AsJson = False,
    seed: Seed = 0,
) -> None:
    """Tokens per pass and speedup of a pair: measured, and predicted from its acceptance rates."""
    try:
        from specverify.models.measure import measure_pair
        from specverify.models.pairs import load_pair
    except ModuleNotFoundError as error:
        raise MissingDependencyError(error.name or "torch", "torch") from error
    from specverify.warping import SamplingParams

    gammas = positive_integers("--gamma", gamma)
    sampling = SamplingParams(temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p)
    found = []
    with progress() as show:
        models = load_pair(pair, draft=draft, dtype=dtype)
        for done, size in enumerate(gammas):
            show("measuring", done, len(gammas), f"gamma {size}")
            found.append(
                measure_pair(
                    models,
                    gamma=size,
                    sampling=sampling,
                    max_new_tokens=tokens,
                    rounds=rounds,
                    seed=seed,
                )
            )
        show("measuring", len(gammas), len(gammas), "")
    if as_json:
        say_json([measurement_record(result) for result in found])
        return
    _show(found)


def measurement_record(result: PairMeasurement) -> dict[str, Any]:
    """A measurement as JSON values."""
    return {
        "gamma": result.gamma,
        "temperature": result.sampling.temperature,
        "prompts": result.prompts,
        "passes": result.passes,
        "alpha": result.alpha,
        "tokens_per_pass": result.tokens_per_pass._asdict(),
        "predicted_tokens_per_pass": result.predicted_tokens_per_pass._asdict(),
        "iid_tokens_per_pass": result.iid_tokens_per_pass,
        "as_predicted": result.as_predicted,
        "c": result.costs.draft_ratio,
        "verify_cost": result.costs.verify_ratio,
        "plain_ms_per_token": 1e3 * result.plain_seconds,
        "speculative_ms_per_token": 1e3 * result.speculative_seconds,
        "speedup": result.speedup._asdict(),
        "predicted_speedup": result.predicted_speedup,
    }


def measurement_row(result: PairMeasurement) -> dict[str, str]:
    """A measurement as a row of a table: estimates with their 95 % bounds."""
    return {
        "gamma": str(result.gamma),
        "alpha": f"{result.alpha:.3f}",
        "tokens/pass": _bounded(result.tokens_per_pass),
        "predicted": _bounded(result.predicted_tokens_per_pass),
        "iid formula": f"{result.iid_tokens_per_pass:.3f}",
        "c": f"{result.costs.draft_ratio:.3f}",
        "verify cost": f"{result.costs.verify_ratio:.2f}",
        "speedup": _bounded(result.speedup, 2),
        "predicted speedup": f"{result.predicted_speedup:.2f}",
    }


def measurement_sentence(result: PairMeasurement) -> str:
    """Whether the count is as predicted, and what a token costs."""
    verdict = "within" if result.as_predicted else "outside"
    return (
        f"measured tokens/pass ({result.passes:,} passes) {verdict} the 95 % bounds of the"
        f" prediction; {1e3 * result.plain_seconds:.2f} ms a token plain,"
        f" {1e3 * result.speculative_seconds:.2f} ms speculative"
    )


def _show(found: list[PairMeasurement]) -> None:
    say_records([measurement_row(result) for result in found])
    say("")
    for result in found:
        say(f"gamma {result.gamma}: {measurement_sentence(result)}")


def _bounded(value: Estimate, digits: int = 3) -> str:
    return f"{value.value:.{digits}f} [{value.low:.{digits}f}, {value.high:.{digits}f}]"
