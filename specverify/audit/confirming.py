"""An exact law against a sample of the real callable: a tracer that is wrong must not be trusted.

Uniforms are idealised as reals, so an outcome of probability 0 may occur once in some 2^24 draws:
whatever the law leaves out has the probability :data:`SLACK`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from specverify.audit.evidence import Stratum, entropy_p_value, relative_entropy
from specverify.exact.law import ExactLaw
from specverify.stats.tails import binomial_cdf

__all__ = ["LEVEL", "confirm"]

LEVEL = 1e-9
"""A law is discarded where its sample has a smaller p-value."""

_SLACK = 1e-6
_MOST_CELLS = 64
_LEAST_EXPECTED = 5.0


def confirm(law: ExactLaw, outcomes: Sequence[tuple[int, ...]]) -> float:
    """A valid p-value of "the sample follows the law".

    Args:
        law: Law of the emitted tuples. Where a part of it was not explored, its outcomes have at
            least the mass that was found: too few of them count (of each, and of all together),
            and too many do not.
        outcomes: Tuples that ordinary calls emitted, at least one.

    Returns:
        The p-value; of a whole law by relative entropy, of a part of one by binomial tails.
    """
    counts = Counter(outcomes)
    cells = _cells(law.probabilities, len(outcomes))
    seen = np.array([counts[outcome] for outcome in cells], dtype=np.int64)
    masses = np.array([law.probabilities[outcome] for outcome in cells])
    known = sum(counts[outcome] for outcome in law.probabilities)
    if law.unexplored_mass > _SLACK:
        # All that was found together is a cell too: alone none of it may be expected often enough.
        seen, masses = np.append(seen, known), np.append(masses, sum(law.probabilities.values()))
        tails = binomial_cdf(seen, len(outcomes), np.minimum(masses, 1.0))
        return min(1.0, len(seen) * float(tails.min()))
    rest = max(1.0 - law.exception_mass - float(masses.sum()), 0.0)
    observed = [*seen, known - int(seen.sum()), len(outcomes) - known]
    expected = np.array([*masses, rest + _SLACK, law.exception_mass + _SLACK])
    stratum = Stratum(np.array(observed, dtype=np.int64), expected / expected.sum())
    return entropy_p_value(relative_entropy([stratum]), len(expected) - 1)


def _cells(probabilities: Mapping[tuple[int, ...], float], n: int) -> list[tuple[int, ...]]:
    """The likeliest outcomes, as far as they are expected often enough to stand alone."""
    ordered = sorted(probabilities, key=lambda outcome: (-probabilities[outcome], outcome))
    return [o for o in ordered[:_MOST_CELLS] if n * probabilities[o] >= _LEAST_EXPECTED]
