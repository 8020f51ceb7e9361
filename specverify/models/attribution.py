"""Why a measured speedup is not the formula's: factors, one a cause, whose product is exact."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from specverify.models.costs import Costs, Extras
from specverify.sampler.trace import DecodeTrace

__all__ = ["Term", "Totals", "attribute", "to_blame"]


@dataclass(frozen=True)
class Term:
    """One cause.

    Attributes:
        name: The cause.
        factor: What it multiplies the speedup by; 1 is no effect.
        text: What it is.
    """

    name: str
    factor: float
    text: str


@dataclass(frozen=True, kw_only=True)
class Totals:
    """Means over completions of what decoding did and took.

    Attributes:
        tokens: Tokens of a completion.
        passes: Target passes.
        drafted: Drafted tokens.
        full: Passes in which all drafted tokens were accepted.
        plain: Seconds of plain decoding.
        speculative: Seconds of speculative decoding.
    """

    tokens: float
    passes: float
    drafted: float
    full: float
    plain: float
    speculative: float

    @classmethod
    def of(
        cls, traces: Sequence[Sequence[DecodeTrace]], plain: float, speculative: float
    ) -> Totals:
        """Count traces; the seconds are means over prompts."""
        runs = [trace for prompt in traces for trace in prompt]
        full = sum(len(block.proposed) == block.n_accepted > 0 for trace in runs for block in trace)
        return cls(
            tokens=sum(trace.kept for trace in runs) / len(runs),
            passes=sum(trace.passes for trace in runs) / len(runs),
            drafted=sum(trace.drafted for trace in runs) / len(runs),
            full=full / len(runs),
            plain=plain,
            speculative=speculative,
        )


def attribute(
    totals: Totals,
    costs: Costs,
    extras: Extras,
    *,
    gamma: int,
    tokens_per_pass: tuple[float, float, float],
) -> tuple[Term, ...]:
    """Factors between the formula of a constant alpha and the measured speedup.

    Args:
        totals: What decoding did and took.
        costs: Seconds of the calls that a pass is made of.
        extras: Seconds of the calls beside them.
        gamma: Drafted tokens in a full pass.
        tokens_per_pass: By the formula of a constant alpha, by the known alphas, and as counted.

    Returns:
        First the formula's speedup itself, then one factor a cause; the product of all is the
        measured speedup.
    """
    constant, known, counted = tokens_per_pass
    full_pass = costs.pass_cost(gamma)
    at = _modelled(totals, costs, extras, gamma)
    with_prompts = at.passes + at.prompts
    factors = (
        constant / full_pass,
        known / constant,
        counted / known,
        at.steps / at.passes / (counted / full_pass),
        at.plain / with_prompts / (at.steps / at.passes),
        with_prompts / (with_prompts + at.caught_up),
        totals.plain / at.plain,
        (with_prompts + at.caught_up) / totals.speculative,
    )
    return tuple(
        Term(name, factor, text)
        for (name, text), factor in zip(_TEXTS.items(), factors, strict=True)
    )


class _Modelled(NamedTuple):
    """Seconds that the calls of a completion take, by what was measured of single calls.

    Attributes:
        steps: Plain decoding without its prompt.
        plain: Plain decoding.
        passes: Speculation without its prompts, each draft step over one token.
        prompts: What reading the prompts adds.
        caught_up: What draft steps over two tokens add.
    """

    steps: float
    plain: float
    passes: float
    prompts: float
    caught_up: float


def _modelled(totals: Totals, costs: Costs, extras: Extras, gamma: int) -> _Modelled:
    # A pass over fewer drafts costs less; its cost is taken to be linear in their number.
    longer = (costs.target_block - costs.target_step) * totals.drafted / gamma
    steps = totals.tokens * costs.target_step
    target_prompt = extras.target_prompt_block - costs.target_block
    return _Modelled(
        steps=steps,
        plain=steps + extras.target_prompt - costs.target_step,
        passes=totals.passes * costs.target_step + longer + totals.drafted * costs.draft_step,
        prompts=target_prompt + extras.draft_prompt - costs.draft_step,
        caught_up=totals.full * (extras.draft_two - costs.draft_step),
    )


def to_blame(terms: Sequence[Term]) -> Term:
    """The largest cause of a gap between the prediction by known alphas and the measurement."""
    return max(terms[2:], key=lambda term: abs(math.log(term.factor)))


_TEXTS = {
    "formula": "constant alpha: tokens a pass over gamma c + v",
    "heterogeneity": "alphas that differ from token to token",
    "chance": "what the draws did beyond their known alphas",
    "last passes": "passes cut at the text's end",
    "prompt": "reading the prompt, which the draft does, too",
    "cache": "after a full accept the draft reads two tokens: its cache lacks the last",
    "plain overhead": "plain decoding beyond its model calls",
    "speculative overhead": "speculation beyond its calls of the models: draws, accept tests, "
    "bookkeeping",
}
