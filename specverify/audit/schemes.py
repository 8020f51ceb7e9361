"""What lossless schemes predict for a block: accepted drafts and emitted tokens."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from specverify.audit.chains import accepted_pmf
from specverify.audit.evidence import Stratum
from specverify.audit.joint_acceptance import jointly_accepted_pmf, prefixes
from specverify.audit.scenarios import Scenario

__all__ = [
    "BLOCK",
    "BLOCK_SCHEMES",
    "MATCH",
    "SCHEMES",
    "STANDARD",
    "Scheme",
    "block_strata",
    "length_strata",
    "mean_length",
]

_SLACK = 1e-7
"""Probability left to what a scheme rules out: a rounded ratio may reject where one is exact."""

_MOST_PREFIXES = 2_000_000


@dataclass(frozen=True, kw_only=True)
class Scheme:
    """A lossless way to verify a block.

    Attributes:
        code: Identifier of the finding.
        text: What to tell people.
        matching: Drafts are accepted with the target's own probability.
        joint: Prefixes of the block are accepted by their joint probabilities.
        bonus: A token follows a block whose drafts were all accepted.
    """

    code: str
    text: str
    matching: bool = False
    joint: bool = False
    bonus: bool = True

    def applies(self, scenario: Scenario) -> bool:
        """Whether its predictions can be computed here."""
        return not self.joint or prefixes(scenario.chain, scenario.gamma) <= _MOST_PREFIXES

    def outcome_law(self, scenario: Scenario, context: int) -> NDArray[np.float64]:
        """Joint law of accepted drafts (rows) and emitted tokens, ``(gamma + 1, gamma + 2)``."""
        if self.joint:
            accepted = jointly_accepted_pmf(scenario.chain, scenario.gamma, context=context)
        else:
            accepted = accepted_pmf(
                scenario.chain, scenario.gamma, context=context, matching=self.matching
            )
        law = np.zeros((scenario.gamma + 1, scenario.gamma + 2))
        for count, probability in enumerate(accepted):
            corrected = count < scenario.gamma or self.bonus
            law[count, count + corrected] = probability
        return law


STANDARD = Scheme(code="standard", text="acceptance and tokens/pass follow the standard rule")
MATCH = Scheme(
    code="sample-and-match",
    text="a draft x is accepted with probability target(x), as sample-and-match or an "
    "acceptance independent of the draft's law does, not min(1, target(x)/draft(x)): "
    "fewer drafts are accepted",
    matching=True,
)
SCHEMES = (
    STANDARD,
    Scheme(
        code="no-bonus-token",
        text="no bonus token: tokens/pass follows (1 - a^K)/(1 - a), "
        "not (1 - a^(K+1))/(1 - a), for K drafts",
        bonus=False,
    ),
    MATCH,
    Scheme(
        code="sample-and-match-no-bonus",
        text="a draft x is accepted with probability target(x), and no bonus token follows: "
        "fewer tokens/pass",
        matching=True,
        bonus=False,
    ),
)

BLOCK = Scheme(
    code="block-verification",
    text="prefixes of a block are accepted by their joint probabilities, as block verification "
    "does: at least as many drafts as under the standard rule",
    joint=True,
)
"""After Sun et al. (2024), arXiv:2403.10444."""

BLOCK_SCHEMES = (*SCHEMES, BLOCK)
"""What single blocks are compared with; of whole texts no block's end is seen."""


def block_strata(scheme: Scheme, scenario: Scenario, outcomes: NDArray[np.int64]) -> list[Stratum]:
    """Counts of block outcomes by context, in the cells that the scheme allows, others as one.

    Args:
        scheme: What is predicted.
        scenario: The rows.
        outcomes: Blocks by context, accepted drafts and emitted tokens.
    """
    return [
        _with_rest(scheme.outcome_law(scenario, context), outcomes[context])
        for context in _seen(outcomes)
    ]


def length_strata(scheme: Scheme, scenario: Scenario, outcomes: NDArray[np.int64]) -> list[Stratum]:
    """Counts of emitted lengths by context, in the cells that the scheme allows."""
    return [
        _with_rest(scheme.outcome_law(scenario, context).sum(axis=0), outcomes[context].sum(axis=0))
        for context in _seen(outcomes)
    ]


def mean_length(scheme: Scheme, scenario: Scenario, outcomes: NDArray[np.int64]) -> float:
    """Expected emitted tokens of a block, over the contexts that blocks started from."""
    weights = outcomes.sum(axis=(1, 2))
    sizes = np.arange(scenario.gamma + 2)
    means = [
        float(scheme.outcome_law(scenario, context).sum(axis=0) @ sizes) * weights[context]
        for context in _seen(outcomes)
    ]
    return float(sum(means)) / max(1, int(weights.sum()))


def _seen(outcomes: NDArray[np.int64]) -> list[int]:
    return [int(context) for context in np.flatnonzero(outcomes.sum(axis=(1, 2)))]


def _with_rest(law: NDArray[np.float64], outcomes: NDArray[np.int64]) -> Stratum:
    allowed = law > _SLACK
    counts = np.append(outcomes[allowed], outcomes[~allowed].sum())
    probs = np.append(law[allowed], 0.0) * (1 - _SLACK)
    probs[-1] = 1 - probs.sum()
    return Stratum(counts.astype(np.int64), probs)
