"""The smallest case on which a verifier is biased, found by drawing cases and shrinking one."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from specverify._arrays import FloatArray
from specverify.errors import MissingDependencyError
from specverify.exact.blocks import ExactCheck, check_exact
from specverify.exact.calling import Framework, VerifyForm
from specverify.exact.scenario import BlockScenario

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

__all__ = [
    "Counterexample",
    "Judged",
    "find_counterexample",
    "normalised",
    "smallest",
    "snippet_of",
    "weighted_row",
]

_LARGEST_WEIGHT = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Counterexample:
    """A case on which the emitted law is not the target's.

    Attributes:
        target_weights: Whole weights of the target's rows, before normalisation.
        draft_weights: Whole weights of the draft's rows.
        tv: Exact total variation distance (a lower bound of it where the budget ended).
        position: First deviating position, 0-based.
        snippet: Python code that shows it, to be pasted into a test.
    """

    target_weights: tuple[tuple[int, ...], ...]
    draft_weights: tuple[tuple[int, ...], ...]
    tv: float
    position: int
    snippet: str

    @property
    def target_probs(self) -> FloatArray:
        """Target rows, shape ``(gamma + 1, vocab)``."""
        return normalised(self.target_weights)

    @property
    def draft_probs(self) -> FloatArray:
        """Draft rows, shape ``(gamma, vocab)``."""
        return normalised(self.draft_weights)


def find_counterexample(
    verify: Callable[..., Any],
    *,
    form: VerifyForm = "verify",
    framework: Framework = "torch",
    dtype: str = "float64",
    max_vocab: int = 4,
    max_gamma: int = 2,
    tolerance: float | None = None,
    max_examples: int = 100,
    max_cases: int = 400,
    seed: int = 0,
    binding: str | None = None,
    **budget: Any,
) -> Counterexample | None:
    """Search for a case with exact distance above the tolerance, and shrink it.

    Cases have rows of whole weights, zeros and ties included. Blocks of few weights come first, so
    that the first size with a deviation is the smallest. The same seed gives the same case.

    Args:
        verify: ``verify(target_probs, draft_probs, draft_tokens[, generator])``.
        form: ``"verify"`` or ``"batched"``.
        framework: Arrays and generator to hand over.
        dtype: Floating dtype of the rows.
        max_vocab: Largest vocabulary, at least 2.
        max_gamma: Most drafts.
        tolerance: Deviation to forgive; by ``dtype`` when not given.
        max_examples: Cases to draw, over all sizes.
        max_cases: Cases to enumerate, those of the shrinking included.
        seed: Seed of the search.
        binding: Statement of the snippet that binds the verifier to its name, where importing it
            from its module does not.
        budget: Options of ``enumerate_law``, for each case.

    Returns:
        The smallest case found, or None if every case drawn was exact.

    Raises:
        UnsupportedRandomness: If the verifier cannot be traced.
        MissingDependencyError: If Hypothesis is not installed.
    """
    options: dict[str, Any] = {"form": form, "framework": framework, "dtype": dtype}

    def check(case: Any) -> ExactCheck:
        scenario = BlockScenario.from_rows(normalised(case[0]), normalised(case[1]))
        return check_exact(verify, scenario, tolerance=tolerance, **options, **budget)

    judged = Judged(check, max_cases)
    sizes = [(v, g) for v in range(2, max_vocab + 1) for g in range(1, max_gamma + 1)]
    sizes.sort(key=lambda size: (size[0] * (2 * size[1] + 1), size))  # weights to write down
    for size in sizes:
        case = smallest(judged, partial(_cases, *size), math.ceil(max_examples / len(sizes)), seed)
        if case is not None:
            found = judged.check(case)
            assert found.position is not None
            name, imported = _imported(verify)
            return Counterexample(
                target_weights=case[0],
                draft_weights=case[1],
                tv=found.tv.low,
                position=found.position,
                snippet=snippet_of(
                    case, name, **options, tv=found.tv.low, binding=binding or imported
                ),
            )
    return None


class Judged:
    """Whether cases deviate; each is enumerated once, and none once the allowance is spent.

    Args:
        check: The exact verdict on a case.
        allowance: Cases to enumerate.
    """

    def __init__(self, check: Callable[[Any], ExactCheck], allowance: int) -> None:
        self.check, self._allowance = check, allowance
        self._known: dict[Any, bool] = {}

    def deviates(self, case: Any) -> bool:
        """Whether its law is surely not the target's; a case beyond the allowance counts as right,
        consistently, so that the search stays deterministic.
        """
        if case not in self._known:
            spent = len(self._known) >= self._allowance
            self._known[case] = not spent and self.check(case).position is not None
        return self._known[case]


def smallest(
    judged: Judged, cases: Callable[[], SearchStrategy[Any]], examples: int, seed: int
) -> Any:
    """The smallest of the cases drawn that deviates, shrunk, or None.

    Raises:
        MissingDependencyError: If Hypothesis is not installed.
    """
    try:
        import hypothesis
        from hypothesis.errors import NoSuchExample
    except ImportError as error:
        raise MissingDependencyError("hypothesis", "test") from error
    settings = hypothesis.settings(
        max_examples=examples,
        database=None,
        deadline=None,
        # No explanation phase: it would trace every line of every run.
        phases=(hypothesis.Phase.generate, hypothesis.Phase.shrink),
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    try:
        return hypothesis.find(
            cases(), judged.deviates, settings=settings, random=random.Random(seed)
        )
    except NoSuchExample:
        return None


def _cases(vocab: int, gamma: int) -> SearchStrategy[Any]:
    from hypothesis import strategies as st

    row = weighted_row(vocab)
    return st.tuples(st.tuples(*[row] * (gamma + 1)), st.tuples(*[row] * gamma))


def weighted_row(vocab: int) -> SearchStrategy[Any]:
    """Rows of whole weights, at least one of them positive."""
    from hypothesis import strategies as st

    return st.tuples(*[st.integers(0, _LARGEST_WEIGHT)] * vocab).filter(any)


def normalised(weights: Any) -> FloatArray:
    """Rows of whole weights as probabilities, whatever stands in front of the last axis."""
    rows = np.asarray(weights, dtype=np.float64)
    whole: FloatArray = rows / rows.sum(axis=-1, keepdims=True)
    return whole


def snippet_of(rows: tuple[Any, Any], name: str, **found: Any) -> str:
    """Python code that fails where a verifier deviates.

    Args:
        rows: Target rows and draft rows, or weights of them.
        name: Name of the verifier.
        found: ``binding`` (statement that binds the name), ``framework``, ``form``, ``dtype``, and
            the distance ``tv`` that was found, if known.
    """
    seen = "" if found.get("tv") is None else f"  # {found['tv']:.6g} when it was found"
    options = f'framework="{found["framework"]}"'
    options += "" if found["form"] == "verify" else f', form="{found["form"]}"'
    options += "" if found["dtype"] == "float64" else f', dtype="{found["dtype"]}"'
    rounding = "1e-9" if found["dtype"] == "float64" else "1e-6"
    return "\n".join(
        [
            "import numpy as np",
            "from specverify.exact.blocks import exact_verify_tv",
            found["binding"],
            "",
            f"target = np.array({[list(row) for row in rows[0]]}, dtype=float)",
            f"draft = np.array({[list(row) for row in rows[1]]}, dtype=float)",
            "target /= target.sum(axis=-1, keepdims=True)",
            "draft /= draft.sum(axis=-1, keepdims=True)",
            f"tv = exact_verify_tv({name}, target, draft, {options})",
            f"assert tv.high < {rounding}, tv{seen}",
        ]
    )


def _imported(verify: Callable[..., Any]) -> tuple[str, str]:
    """Name of a verifier, and the statement that imports it."""
    name = getattr(verify, "__name__", "verify")
    name = name if name.isidentifier() else "verify"
    module = getattr(verify, "__module__", None) or "your_module"
    return name, f"from {module} import {name}"
