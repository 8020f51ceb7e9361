"""``specverify measure``: what a pair of models does on this machine, beside what theory says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from specverify.cli.options import AsJson, Seed, positive_integers
from specverify.cli.progress import progress
from specverify.cli.shell import note, say, say_json, say_records
from specverify.errors import MissingDependencyError

if TYPE_CHECKING:
    from specverify.models.measure import Estimate, PairMeasurement
    from specverify.models.pairs import Pair

__all__ = [
    "measure",
    "measurement_record",
    "measurement_row",
    "measurement_sentence",
    "speedup_sentence",
]

_PROMPTS, _PROMPT_LENGTH = 12, 8


def measure(
    pair: Annotated[
        str, typer.Argument(help="shipped, a directory of `specverify train`, or a target's name.")
    ] = "shipped",
    draft: Annotated[
        str | None, typer.Option(help="Which draft of the pair, or the draft's own name.")
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="Any target of transformers, in place of PAIR.")
    ] = None,
    gamma: Annotated[str, typer.Option(help="Drafted tokens a pass: 4, 1,2,4 or 1-8.")] = "4",
    batch: Annotated[
        str | None, typer.Option(help="Also time the calls at these batches, e.g. 1,4,16.")
    ] = None,
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
        from specverify.models.costs import measure_cost_table
        from specverify.models.measure import measure_pair
        from specverify.models.pairs import load_pair
    except ModuleNotFoundError as error:
        raise MissingDependencyError(error.name or "torch", "torch") from error
    from specverify.warping import SamplingParams

    gammas = positive_integers("--gamma", gamma)
    batches = positive_integers("--batch", batch) if batch else ()
    sampling = SamplingParams(temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p)
    found = []
    with progress() as show:
        models = load_pair(target or pair, draft=draft, dtype=dtype)
        for done, size in enumerate(gammas):
            show("measuring", done, len(gammas), f"gamma {size}")
            found.append(
                measure_pair(
                    models,
                    gamma=size,
                    sampling=sampling,
                    prompts=_prompts(models, seed),
                    max_new_tokens=tokens,
                    rounds=rounds,
                    seed=seed,
                )
            )
        show("measuring", len(gammas), len(gammas), "")
        costs = measure_cost_table(models, gammas=gammas, batches=batches, sampling=sampling)
    if as_json:
        records = [measurement_record(result) for result in found]
        say_json({"measurements": records, "costs": costs} if batches else records)
        return
    _show(found)
    _show_costs(found, costs)


def _prompts(models: Pair, seed: int) -> list[list[int]] | None:
    """The usual prompts; random ids where there is no tokeniser to read them with."""
    if models.tokenizer is not None:
        return None
    import numpy as np

    note(f"{models.name} has no tokeniser: {_PROMPTS} prompts of {_PROMPT_LENGTH} random ids")
    shape = (_PROMPTS, _PROMPT_LENGTH)
    ids: list[list[int]] = (
        np.random.default_rng(seed).integers(models.target.vocab_size, size=shape).tolist()
    )
    return ids


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
        "pass_cost_bounds": _pass_cost_bounds(result),
        "plain_ms_per_token": 1e3 * result.plain_seconds,
        "speculative_ms_per_token": 1e3 * result.speculative_seconds,
        "speedup": result.speedup._asdict(),
        "predicted_speedup": result.predicted_speedup,
        "predicted_speedup_bounds": _fields(result.predicted_speedup_bounds),
        "speedup_as_predicted": result.speedup_as_predicted,
        "alpha_bounds": _fields(result.alpha_bounds),
        "alpha_by_position": [_fields(rate) for rate in result.alpha_by_position],
        "alpha_by_context": [_fields(rate) for rate in result.alpha_by_context],
        "terms": [{"name": t.name, "factor": t.factor, "text": t.text} for t in result.terms],
    }


def _pass_cost_bounds(result: PairMeasurement) -> dict[str, float]:
    """``gamma c + v`` with the bounds of its spread over repetitions."""
    value = result.costs.pass_cost(result.gamma)
    low, high = result.costs.pass_bounds or (value, value)
    return {"value": value, "low": low, "high": high}


def _fields(value: Estimate | None) -> dict[str, float] | None:
    return None if value is None else value._asdict()


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


def speedup_sentence(result: PairMeasurement) -> str:
    """Whether the speedup is as predicted, or else which term is to blame."""
    from specverify.models.attribution import to_blame

    bounds = result.predicted_speedup_bounds
    if bounds is None or not result.terms:
        return f"measured speedup {result.speedup.value:.2f}"
    said = f"measured speedup {result.speedup.value:.2f}, predicted {_bounded(bounds, 2)}"
    if result.speedup_as_predicted:
        return f"{said}: inside"
    term = to_blame(result.terms)
    return f"{said}: outside; most to blame: {term.name} (factor {term.factor:.3f})"


def _show(found: list[PairMeasurement]) -> None:
    say_records([measurement_row(result) for result in found])
    say("")
    for result in found:
        say(f"gamma {result.gamma}: {measurement_sentence(result)}")
        say(f"gamma {result.gamma}: {speedup_sentence(result)}")
    say("")
    say_records([_profile(result) for result in found], title="acceptance rate, conditional")
    say("")
    say_records(
        [
            {"gamma": str(result.gamma)} | {t.name: f"{t.factor:.3f}" for t in result.terms}
            for result in found
        ],
        title="from the formula to the measured speedup: factors, whose product it is",
    )
    for term in found[0].terms:
        say(f"{term.name}: {term.text}")


def _profile(result: PairMeasurement) -> dict[str, str]:
    places = enumerate(result.alpha_by_position, start=1)
    parts = enumerate(result.alpha_by_context, start=1)
    return (
        {"gamma": str(result.gamma)}
        | {f"token {place}": f"{rate.value:.3f}" for place, rate in places}
        | {f"quarter {part} of text": f"{rate.value:.3f}" for part, rate in parts}
    )


def _show_costs(found: list[PairMeasurement], costs: list[dict[str, float]]) -> None:
    if not costs:
        return
    tokens = {result.gamma: result.predicted_tokens_per_pass.value for result in found}
    say("")
    say_records(
        [
            {
                "batch": f"{row['batch']:g}",
                "gamma": f"{row['gamma']:g}",
                "c": f"{row['c']:.3f}",
                "verify cost": f"{row['verify_cost']:.2f}",
                "predicted speedup": f"{tokens[int(row['gamma'])] / _pass_cost(row):.2f}",
            }
            for row in costs
        ],
        title="costs by batch; the draws of a batch are done row by row",
    )


def _pass_cost(row: dict[str, float]) -> float:
    return row["gamma"] * row["c"] + row["verify_cost"]


def _bounded(value: Estimate, digits: int = 3) -> str:
    return f"{value.value:.{digits}f} [{value.low:.{digits}f}, {value.high:.{digits}f}]"
