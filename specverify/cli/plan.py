"""``specverify plan``: how many samples a question needs."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from specverify.cli.options import AsJson, UnusedSeed
from specverify.cli.shell import say, say_json, say_records

__all__ = ["plan"]


def plan(
    vocab: Annotated[int, typer.Option(min=2, help="Tokens of the vocabulary.")],
    tv: Annotated[float, typer.Option(help="Total variation that must not be missed.")] = 0.02,
    false_alarm: Annotated[
        float, typer.Option(help="Probability that a correct implementation fails.")
    ] = 1e-6,
    power: Annotated[float, typer.Option(help="Probability of finding the deviation.")] = 0.9,
    tests: Annotated[
        int, typer.Option(min=1, help="Tests that share the false-alarm probability (Bonferroni).")
    ] = 1,
    as_json: AsJson = False,
    seed: UnusedSeed = 0,
) -> None:
    """Tokens that a chi-square test of one law needs to find a deviation for certain enough.

    The distance is guaranteed in the least favourable direction. A long tail is pooled into fewer
    cells, so the count for the whole vocabulary is an upper bound.
    """
    from specverify.stats.power import sample_size

    level = false_alarm / tests
    record: dict[str, Any] = {
        "vocab": vocab,
        "tv": tv,
        "false_alarm": false_alarm,
        "tests": tests,
        "power": power,
        "samples": sample_size(tv, vocab, level, power),
        "by_tv": [
            {"tv": distance, "samples": sample_size(distance, vocab, level, power)}
            for distance in (0.2, 0.1, 0.05, 0.02, 0.01, 0.005)
        ],
    }
    if as_json:
        say_json(record)
        return
    say(f"{record['samples']:,} tokens: TV {tv:g} over {vocab} tokens is found with probability")
    say(f"{power:g}; a correct implementation fails with probability {false_alarm:g}")
    say("")
    say_records(record["by_tv"])
