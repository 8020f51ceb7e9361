"""``specverify theory``: what an acceptance rate is worth."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from specverify.cli.options import AsJson, UnusedSeed, positive_integers
from specverify.cli.shell import say, say_json, say_records

__all__ = ["theory"]


def theory(
    alpha: Annotated[float, typer.Option(help="Acceptance rate of a drafted token, in [0, 1].")],
    gamma: Annotated[str, typer.Option(help="Drafted tokens a pass: 4, 1,2,4 or 1-10.")] = "1-10",
    cost: Annotated[
        float, typer.Option("--c", help="Cost of a draft step over that of a target step.")
    ] = 0.1,
    verify_cost: Annotated[
        float, typer.Option(help="Cost of a verifying pass over that of a target step.")
    ] = 1.0,
    no_bonus: Annotated[
        bool, typer.Option("--no-bonus", help="A fully accepted block earns no further token.")
    ] = False,
    as_json: AsJson = False,
    seed: UnusedSeed = 0,
) -> None:
    """Tokens per pass, speedup, the best gamma and the law of the emitted length."""
    gammas = positive_integers("--gamma", gamma)
    values = _theory(alpha, gammas, cost, verify_cost, bonus=not no_bonus)
    if as_json:
        say_json(values)
    else:
        _show(values)


def _theory(
    alpha: float, gammas: tuple[int, ...], cost: float, verify_cost: float, *, bonus: bool
) -> dict[str, Any]:
    from specverify.theory.emitted_length import emitted_length_pmf
    from specverify.theory.expected_tokens import expected_accepted_tokens
    from specverify.theory.optimal_gamma import optimal_gamma
    from specverify.theory.speedup import speculative_speedup

    rows = [
        {
            "gamma": gamma,
            "tokens_per_pass": expected_accepted_tokens(alpha, gamma, bonus=bonus),
            "speedup": speculative_speedup(
                alpha, gamma, cost, verify_cost=verify_cost, bonus=bonus
            ),
            "length_pmf": emitted_length_pmf(alpha, gamma, bonus=bonus).tolist(),
        }
        for gamma in gammas
    ]
    return {
        "alpha": alpha,
        "c": cost,
        "verify_cost": verify_cost,
        "bonus": bonus,
        "optimal_gamma": optimal_gamma(alpha, cost, verify_cost=verify_cost, bonus=bonus),
        "rows": rows,
    }


def _show(values: dict[str, Any]) -> None:
    bonus = "" if values["bonus"] else ", no bonus token"
    say(f"alpha {values['alpha']:g}, c {values['c']:g}, verify {values['verify_cost']:g}{bonus}")
    say("")
    say_records(
        [
            {
                "gamma": row["gamma"],
                "tokens/pass": f"{row['tokens_per_pass']:.3f}",
                "speedup": f"{row['speedup']:.3f}",
            }
            for row in values["rows"]
        ]
    )
    say("")
    longest = max(values["rows"], key=lambda row: len(row["length_pmf"]))
    say_records(
        [
            {"tokens": tokens, "probability": f"{mass:.6f}"}
            for tokens, mass in enumerate(longest["length_pmf"], start=1)
        ],
        title=f"tokens emitted by one pass at gamma {longest['gamma']}",
    )
    say("")
    say(f"best gamma: {values['optimal_gamma']}")
