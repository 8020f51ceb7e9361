"""``specverify tune``: which draft length to use, from numbers, a measurement or a log."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from specverify.cli.logs import read_text
from specverify.cli.options import AsJson, UnusedSeed
from specverify.cli.shell import note, say, say_json, say_records
from specverify.errors import InvalidInputError

if TYPE_CHECKING:
    from specverify.simulate.tuning import Belief

__all__ = ["tune"]


def tune(
    file: Annotated[
        str | None,
        typer.Argument(
            metavar="[FILE]", help="JSON of `specverify measure --json`, or an engine's log."
        ),
    ] = None,
    alpha: Annotated[
        str | None, typer.Option(help="Acceptance rate, or with bounds: 0.8 or 0.8,0.75,0.85.")
    ] = None,
    cost: Annotated[
        str | None, typer.Option("--c", help="Draft step over target step: 0.1 or 0.1,0.08,0.12.")
    ] = None,
    verify_cost: Annotated[
        float, typer.Option(help="Cost of a pass over one drafted token, in target steps.")
    ] = 1.0,
    verify_slope: Annotated[
        float, typer.Option(help="What each further drafted token adds to a pass.")
    ] = 0.0,
    max_gamma: Annotated[int, typer.Option(min=1, help="Longest draft considered.")] = 20,
    as_json: AsJson = False,
    seed: UnusedSeed = 0,
) -> None:
    """Recommend gamma, with what the bounds leave open and what a misjudged alpha or c loses."""
    from specverify.simulate.tuning import belief_of, belief_of_measurements, misjudged, recommend

    text = None if file is None else read_text(file)
    records = _measurements(text)
    if records is not None:
        belief = belief_of_measurements(records, max_gamma=max_gamma)
    else:
        if cost is None:
            raise InvalidInputError("--c", "is needed: only a measurement knows the costs")
        belief = belief_of(
            _with_bounds("--alpha", alpha) if alpha else _logged_alpha(text),
            _with_bounds("--c", cost),
            verify_cost=verify_cost,
            verify_slope=verify_slope,
            max_gamma=max_gamma,
        )
    found, losses = recommend(belief), misjudged(belief)
    if as_json:
        say_json(asdict(found) | {"misjudged": losses, "curve": belief.speedups().tolist()})
    else:
        _show(belief, asdict(found), losses)


def _measurements(text: str | None) -> list[dict[str, Any]] | None:
    """Records of a measurement; None where the text is something else."""
    try:
        value = json.loads(text or "")
    except ValueError:
        return None
    records = value.get("measurements") if isinstance(value, dict) else value
    if not isinstance(records, list) or not records or not isinstance(records[0], dict):
        return None
    return records if "alpha_by_position" in records[0] else None


def _with_bounds(option: str, text: str) -> tuple[float, float, float]:
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) not in (1, 3):
        raise InvalidInputError(option, f"must be 0.8 or 0.8,0.75,0.85, got {text!r}")
    return (numbers[0], numbers[0], numbers[0]) if len(numbers) == 1 else tuple(numbers)  # type: ignore[return-value]


def _logged_alpha(text: str | None) -> tuple[float, float, float]:
    """Alpha of an engine's log: conditional if it can tell, else that of a constant alpha."""
    if text is None:
        raise InvalidInputError("--alpha", "is needed, or a FILE to take it from")
    from specverify.adapters.logs.pooling import pooled
    from specverify.adapters.logs.reading import read_records
    from specverify.adapters.logs.record import count_tested, rates
    from specverify.stats.intervals import clopper_pearson

    records = read_records(text)
    found_in = pooled(records) or records
    # The latest that tells alpha: a log may hold lines of other formats behind it.
    telling = [
        one
        for one in found_in
        if (told := rates(one)).conditional is not None or told.alpha_if_constant is not None
    ]
    record = (telling or found_in)[-1]
    found, tested = rates(record), count_tested(record)
    if found.conditional is not None and tested and record.accepted is not None:
        note(f"{record.source}: bounds of alpha as if its {tested} tests were independent")
        return (found.conditional, *clopper_pearson(record.accepted, tested))
    value = found.alpha_if_constant if found.conditional is None else found.conditional
    if value is None:
        raise InvalidInputError("FILE", f"{record.source} does not tell alpha: give --alpha")
    note(f"{record.source}: alpha without bounds, from rates")
    return value, value, value


def _show(belief: Belief, found: dict[str, Any], losses: list[dict[str, Any]]) -> None:
    curve = belief.speedups()
    last = min(len(curve), max(found["gamma_high"], found["gamma"]) + 2)
    say_records(
        [
            {"gamma": str(gamma), "speedup": f"{curve[gamma - 1]:.3f}"}
            for gamma in range(1, last + 1)
        ]
    )
    say("")
    _say_choice(found)
    say("")
    say_records(
        [
            {
                "truth": row["truth"],
                "best gamma": str(row["gamma"]),
                "its speedup": f"{row['best_speedup']:.3f}",
                f"speedup at {found['gamma']}": f"{row['speedup']:.3f}",
                "loss": f"{row['loss']:.1%}",
            }
            for row in losses
        ],
        title=f"what gamma {found['gamma']} loses if alpha or the draft's cost is misjudged",
    )


def _say_choice(found: dict[str, Any]) -> None:
    if found["speedup"] <= 1:
        say(f"do not speculate: the best speedup is {found['speedup']:.3f}")
    say(
        f"gamma {found['gamma']} (within the bounds {found['gamma_low']} to {found['gamma_high']}):"
        f" speedup {found['speedup']:.3f} [{found['speedup_low']:.3f}, {found['speedup_high']:.3f}]"
    )
    say(f"it loses at most {found['worst_loss']:.1%} of the best within the bounds")
    if found["cautious_gamma"] != found["gamma"]:
        say(f"gamma {found['cautious_gamma']} loses at most {found['cautious_loss']:.1%}")
