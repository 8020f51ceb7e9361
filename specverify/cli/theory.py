"""``specverify theory``: what an acceptance rate is worth."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from specverify.cli.options import AsJson, UnusedSeed, positive_integers
from specverify.cli.shell import say, say_json, say_table

__all__ = ["theory"]


def theory(
    alpha: Annotated[float, typer.Option(help="Acceptance rate of a drafted token, in [0, 1].")],
    gamma: Annotated[str, typer.Option(help="Drafted tokens a pass: 4, 1,2,4 or 1-10.")] = "1-10",
    cost: Annotated[
        float, typer.Option("--c", help="Cost of a draft step over a target step.")
    ] = 0.1,
    as_json: AsJson = False,
    seed: UnusedSeed = 0,
) -> None:
    """Tokens per pass, speedup, the best gamma and the law of the emitted length."""
    values = _theory(alpha, positive_integers("--gamma", gamma), cost)
    if as_json:
        say_json(values)
    else:
        _show(values)


def _theory(alpha: float, gammas: tuple[int, ...], cost: float) -> dict[str, Any]:
    from specverify.theory import (
        emitted_length_pmf,
        expected_accepted_tokens,
        optimal_gamma,
        speculative_speedup,
    )

    best = optimal_gamma(alpha, cost)
    rows = [
        {
            "gamma": gamma,
            "tokens_per_pass": float(expected_accepted_tokens(alpha, gamma)),
            "speedup": float(speculative_speedup(alpha, gamma, cost)),
            "length_pmf": [float(mass) for mass in emitted_length_pmf([alpha] * gamma)],
        }
        for gamma in gammas
    ]
    return {"alpha": alpha, "c": cost, "optimal_gamma": best, "rows": rows}


def _show(values: dict[str, Any]) -> None:
    say(f"alpha {values['alpha']:g}, draft step {values['c']:g} of a target step")
    say_table(
        ("gamma", "tokens/pass", "speedup"),
        (
            (str(row["gamma"]), f"{row['tokens_per_pass']:.3f}", f"{row['speedup']:.3f}")
            for row in values["rows"]
        ),
    )
    say(f"best gamma: {values['optimal_gamma']}")
