"""Distance between the target's law of a text and that of an implementation's first tokens.

An implementation that emits ``s`` and is then continued by the target has the law
``sum over prefixes s of x of P(s) target(x | s)``. A lossless scheme has the target's, however many
tokens it emits at a time; so schemes without a bonus token or with another coupling pass as well.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from specverify.exact.scenario import NextProbs

__all__ = ["completed_excess"]


@dataclass(slots=True)
class _Node:
    mass: list[float] = field(default_factory=list)
    children: dict[int, _Node] = field(default_factory=dict)

    def total(self) -> float:
        return math.fsum([*self.mass, *(child.total() for child in self.children.values())])


def completed_excess(
    emitted: Mapping[tuple[int, ...], float], target: NextProbs, length: int
) -> float:
    """``sum max(P - target, 0)`` over texts of ``length`` tokens.

    Equal to the total variation distance where the masses sum to one, a certified lower bound of it
    where some mass was not explored.

    Args:
        emitted: Mass of each emitted tuple, cut to ``length`` and continued by the target.
        target: Law of the next token after a tuple.
        length: Tokens compared, at least 1.

    References:
        Sun et al. (2024), arXiv:2403.10444, section 3: what makes a block verification valid.
    """
    root = _Node()
    for tokens, mass in emitted.items():
        node = root
        for token in tokens[:length]:
            node = node.children.setdefault(token, _Node())
        node.mass.append(mass)
    return math.fsum(_excesses(root, (), 1.0, (target, length, 0.0)))


def _excesses(
    node: _Node, prefix: tuple[int, ...], target_mass: float, rest: tuple[NextProbs, int, float]
) -> list[float]:
    """Positive parts under ``prefix``; ``rest`` ends with the density of its shorter prefixes."""
    target, length, density = rest
    if target_mass <= 0.0:
        return [node.total()]
    density += math.fsum(node.mass) / target_mass
    if len(prefix) == length or not node.children:
        return [target_mass * max(density - 1.0, 0.0)]
    row = target(prefix)
    found: list[float] = []
    others = 1.0
    for token, child in node.children.items():
        prob = float(row[token]) if 0 <= token < len(row) else 0.0
        others -= prob
        found += _excesses(child, (*prefix, token), target_mass * prob, (target, length, density))
    found.append(max(others, 0.0) * target_mass * max(density - 1.0, 0.0))
    return found
