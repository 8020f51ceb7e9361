"""The search for the smallest counterexample, within what a check may spend."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from specverify.errors import MissingDependencyError
from specverify.exact.calling import Framework, VerifyForm
from specverify.exact.search import Counterexample, find_counterexample
from specverify.testing.enumeration import positional
from specverify.testing.evidence import Evidence
from specverify.testing.options import EXACT_GAMMAS

__all__ = ["Search", "search"]

_MAX_VOCAB = 3
_MAX_GAMMA = 2
_EXAMPLES = 60


@dataclass(frozen=True, kw_only=True)
class Search:
    """Outcome of a search.

    Attributes:
        counterexample: The smallest case found, or None.
        cases: Cases drawn at most; 0 where no search was made.
        why_not: Why none was made or found, where there is more to say than the number of cases.
    """

    counterexample: Counterexample | None = None
    cases: int = 0
    why_not: str = ""


def search(evidence: Evidence, dtype: str) -> Search:
    """Search for a counterexample with few tokens and few drafts.

    Args:
        evidence: The implementation; only block verifiers are searched.
        dtype: Floating dtype of the rows to hand over.

    Returns:
        What was found.
    """
    options = evidence.options
    if options.form == "decode":
        return Search(why_not="whole loops are compared on the fixed cases only")
    if evidence.purse.empty:
        return Search(why_not="the budget is spent")
    try:
        found = find_counterexample(
            positional(evidence.target),
            form=cast("VerifyForm", options.form),
            framework=cast("Framework", str(evidence.target.framework)),
            dtype=dtype,
            max_vocab=_MAX_VOCAB,
            max_gamma=min(_MAX_GAMMA, max(options.gammas or EXACT_GAMMAS)),
            tolerance=options.tolerance,
            max_examples=_EXAMPLES,
            seed=options.seed,
            **evidence.purse.limits(),
        )
    except MissingDependencyError as error:
        return Search(why_not=str(error))
    alone = options.form == "batched" and found is None
    why_not = f"none of {_EXAMPLES} drawn batches of one deviates" if alone else ""
    return Search(counterexample=found, cases=_EXAMPLES, why_not=why_not)
