"""The smallest case on which a verifier is biased, found by drawing cases and shrinking one."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from specverify._arrays import FloatArray
from specverify.errors import MissingDependencyError
from specverify.exact.blocks import check_exact
from specverify.exact.calling import Framework, VerifyForm
from specverify.exact.scenario import BlockScenario

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

__all__ = ["Counterexample", "find_counterexample"]

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
        return _normalised(self.target_weights)

    @property
    def draft_probs(self) -> FloatArray:
        """Draft rows, shape ``(gamma, vocab)``."""
        return _normalised(self.draft_weights)


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
    seed: int = 0,
    **budget: Any,
) -> Counterexample | None:
    """Search for a case with exact distance above the tolerance, and shrink it.

    Cases have rows of whole weights, zeros and ties included. The same seed gives the same case.

    Args:
        verify: ``verify(target_probs, draft_probs, draft_tokens[, generator])``.
        form: ``"verify"`` or ``"batched"``.
        framework: Arrays and generator to hand over.
        dtype: Floating dtype of the rows.
        max_vocab: Largest vocabulary, at least 2.
        max_gamma: Most drafts.
        tolerance: Deviation to forgive; by ``dtype`` when not given.
        max_examples: Cases to draw.
        seed: Seed of the search.
        budget: Options of ``enumerate_law``, for each case.

    Returns:
        The smallest case found, or None if every case drawn was exact.

    Raises:
        UnsupportedRandomness: If the verifier cannot be traced.
        MissingDependencyError: If Hypothesis is not installed.
    """
    try:
        import hypothesis
        from hypothesis.errors import NoSuchExample
    except ImportError as error:
        raise MissingDependencyError("hypothesis", "test") from error
    settings = hypothesis.settings(
        max_examples=max_examples,
        database=None,
        deadline=None,
        # No explanation phase: it would trace every line of every run.
        phases=(hypothesis.Phase.generate, hypothesis.Phase.shrink),
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    options: dict[str, Any] = {
        "form": form,
        "framework": framework,
        "dtype": dtype,
        "tolerance": tolerance,
    }

    def check(case: Any) -> Any:
        scenario = BlockScenario.from_rows(_normalised(case[0]), _normalised(case[1]))
        return check_exact(verify, scenario, **options, **budget)

    try:
        case = hypothesis.find(
            _cases(max_vocab, max_gamma),
            lambda case: check(case).position is not None,
            settings=settings,
            random=random.Random(seed),
        )
    except NoSuchExample:
        return None
    found = check(case)
    target, draft = case
    return Counterexample(
        target_weights=target,
        draft_weights=draft,
        tv=found.tv.low,
        position=found.position,
        snippet=_snippet(case, verify, framework, found.tv.low),
    )


def _cases(max_vocab: int, max_gamma: int) -> SearchStrategy[Any]:
    from hypothesis import strategies as st

    def rows(vocab: int, count: int) -> SearchStrategy[Any]:
        weight = st.integers(0, _LARGEST_WEIGHT)
        row = st.tuples(*[weight] * vocab).filter(any)
        return st.tuples(*[row] * count)

    @lru_cache
    def case(size: tuple[int, int]) -> SearchStrategy[Any]:
        vocab, gamma = size
        return st.tuples(rows(vocab, gamma + 1), rows(vocab, gamma))

    sizes = st.tuples(st.integers(2, max_vocab), st.integers(1, max_gamma))
    return sizes.flatmap(case)


def _normalised(weights: Any) -> FloatArray:
    rows = np.asarray(weights, dtype=np.float64)
    normalised: FloatArray = rows / rows.sum(axis=-1, keepdims=True)
    return normalised


def _snippet(case: Any, verify: Callable[..., Any], framework: Framework, tv: float) -> str:
    name = getattr(verify, "__name__", "verify")
    name = name if name.isidentifier() else "verify"
    module = getattr(verify, "__module__", None) or "your_module"
    return "\n".join(
        [
            "import numpy as np",
            "from specverify.exact.blocks import exact_verify_tv",
            f"from {module} import {name}",
            "",
            f"target = np.array({[list(row) for row in case[0]]}, dtype=float)",
            f"draft = np.array({[list(row) for row in case[1]]}, dtype=float)",
            "target /= target.sum(axis=-1, keepdims=True)",
            "draft /= draft.sum(axis=-1, keepdims=True)",
            f'tv = exact_verify_tv({name}, target, draft, framework="{framework}")',
            f"assert tv.high < 1e-9, tv  # {tv:.6g} when it was found",
        ]
    )
