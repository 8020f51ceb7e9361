"""What a call of ours costs against the vocabulary, the batch and the length of the drafts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

import torch

from specverify.bench.blocks import Cell, DrawnBlocks, verify_laws, verify_logits
from specverify.bench.timing import Measurement, Size, Spread, alternate, exponent
from specverify.theory.expected_tokens import expected_accepted_tokens

__all__ = ["Curve", "curves"]

_CALLS = 4  # a run


def curves(size: Size) -> Iterator[Measurement]:
    """Cost of a call against V, batch and gamma, from probabilities and from logits."""
    for logits in (False, True):
        for against, held, cells in (
            ("V", "batch 32, gamma 4", [Cell(v, 32) for v in _powers(size, 10, 17)]),
            ("batch", "V = 8192, gamma 4", [Cell(8192, b) for b in _powers(size, 3, 8)]),
            ("gamma", "V = 8192, batch 32", [Cell(8192, 32, g) for g in _powers(size, 0, 4)]),
        ):
            yield Curve(against, held, cells, logits).measured(size)


def _powers(size: Size, first: int, last: int) -> list[int]:
    return [2**k for k in range(first, first + 3 if size.quick else last + 1)]


class Curve(NamedTuple):
    """Cells that differ in one size.

    Attributes:
        against: ``V``, ``batch`` or ``gamma``.
        held: What does not differ.
        cells: At least two.
        logits: Whether from logits, else from probabilities.
    """

    against: str
    held: str
    cells: Sequence[Cell]
    logits: bool

    def measured(self, size: Size) -> Measurement:
        """Microseconds a call at each size, and the fitted exponent beside the theoretical one."""
        costs, alphas = zip(*(self._cost(cell, size) for cell in self.cells), strict=True)
        medians = [cost.median for cost in costs]
        fitted, last = exponent(self.sizes, medians), exponent(self.sizes[-2:], medians[-2:])
        numbers = exponent(self.sizes, self.numbers(sum(alphas) / len(alphas)))
        source = "from logits" if self.logits else "from probabilities"
        names = [f"{self.against} = {n}" for n in self.sizes]
        return Measurement(
            what=f"cost of a call {source} against {self.against}, {self.held}",
            unit="us a call",
            sides=dict(zip(names, costs, strict=True)),
            note=f"fitted exponent {fitted:.2f}, between the two largest {last:.2f}; of the numbers"
            f" that must be read {numbers:.2f}",
        )

    @property
    def sizes(self) -> list[int]:
        """The size that differs."""
        names = {"V": "vocab", "batch": "batch", "gamma": "gamma"}
        return [getattr(cell, names[self.against]) for cell in self.cells]

    def numbers(self, alpha: float) -> list[float]:
        """Numbers that the rule reads of each cell, drafts being accepted with probability alpha.

        Of whole rows these are, from probabilities, two after a rejection and one for a bonus; from
        logits two for each test, whose normalisers must be known, and one for a bonus.
        """
        found = []
        for cell in self.cells:
            bonus = alpha**cell.gamma
            tests = expected_accepted_tokens(alpha, cell.gamma, bonus=False)
            rows = bonus + 2 * (tests if self.logits else 1 - bonus)
            found.append(cell.batch * cell.vocab * rows)
        return found

    def _cost(self, cell: Cell, size: Size) -> tuple[Spread, float]:
        blocks = DrawnBlocks.logits(cell) if self.logits else DrawnBlocks.laws(cell)
        call = partial(verify_logits if self.logits else verify_laws, blocks)

        def job() -> None:
            for _ in range(_CALLS):
                call()

        seconds = alternate({"ours": job}, size.runs)["ours"]
        n_accepted = call().n_accepted
        tests = torch.clamp(n_accepted + 1, max=cell.gamma).sum()
        alpha = float(n_accepted.sum() / tests)
        return Spread.of([1e6 * each / _CALLS for each in seconds]), alpha
