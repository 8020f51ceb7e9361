"""One scenario under the tracer: the exact law of what an implementation emits in it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from specverify.audit.batches import as_traced_verifier
from specverify.audit.calls import invoke, split_result, to_framework
from specverify.audit.chains import Chain
from specverify.audit.decoding import EOS, prompt_of, step_functions
from specverify.audit.forms import Form
from specverify.audit.observer import Observer
from specverify.audit.scenarios import Scenario
from specverify.audit.targets import Target
from specverify.errors import ImplementationTimeoutError
from specverify.exact.blocks import ExactCheck, check_exact
from specverify.exact.calling import Framework, traced_generator
from specverify.exact.decoding import judge_completions
from specverify.exact.law import enumerate_law
from specverify.exact.scenario import BlockScenario
from specverify.exact.tape import refuse
from specverify.models.tabular import TabularModel

__all__ = [
    "block_scenario",
    "handed_dtype",
    "paths_expected",
    "tabular_pair",
    "trace",
    "traced_length",
    "watched",
    "watched_loop",
]

_LONGEST_LOOP = 2_500


def handed_dtype(target: Target) -> str:
    """Floating dtype of the rows that the suite hands to an implementation."""
    return "float32" if target.framework == "torch" else "float64"


def paths_expected(scenario: Scenario) -> float:
    """About how many paths a scenario has: drafts times whatever may follow them."""
    drafts, tokens = (_support(side) for side in (scenario.chain.draft, scenario.chain.target))
    once = float(drafts) ** scenario.gamma * tokens
    return once ** traced_length(scenario) if scenario.form is Form.DECODE else once


def traced_length(scenario: Scenario) -> int:
    """Tokens that the tracer asks of a loop: all of them where there are few paths, else one."""
    if scenario.form is not Form.DECODE:
        return scenario.length
    drafts, tokens = (_support(side) for side in (scenario.chain.draft, scenario.chain.target))
    once = float(drafts) ** scenario.gamma * tokens
    return scenario.length if once**scenario.length <= _LONGEST_LOOP else 1


def trace(target: Target, scenario: Scenario, observer: Observer, **budget: Any) -> ExactCheck:
    """Enumerate the law of a block, or of a decoder's completion, and compare it with the target's.

    The suite draws the drafts; a block that ends early is continued by the target. A batched
    verifier's block stands beside one stranger.

    Args:
        target: The implementation.
        scenario: The rows.
        observer: Told of every call, so that one that hangs is noticed.
        budget: Options of :func:`specverify.enumerate_law`.

    Raises:
        UnsupportedRandomness: If the code cannot be traced.
        ReplayDivergence: If it keeps state, or draws from a source that the tracer does not see.
    """
    if scenario.form is Form.DECODE:
        return _trace_loop(target, scenario, observer, budget)
    block = as_traced_verifier(target) if target.form is Form.BATCHED else target
    return check_exact(
        watched(block, observer),
        block_scenario(scenario.chain, scenario.gamma),
        framework=_framework(target),
        dtype=handed_dtype(target),
        order="best",
        **budget,
    )


def watched(target: Target, observer: Observer) -> Callable[..., Any]:
    """An implementation as a function of rows, drafts and a generator, whose calls are watched."""

    def verify(target_probs: Any, draft_probs: Any, draft_tokens: Any, generator: Any) -> Any:
        rows = target_probs, draft_probs, draft_tokens
        return _in_time(observer, lambda: invoke(target, rows, generator))

    return verify


def watched_loop(target: Target, observer: Observer) -> Callable[..., Any]:
    """A decoder as a function that returns its tokens alone, and whose calls are watched."""

    def decode(
        prompt: Any, target_step: Any, draft_step: Any, gamma: int, length: int, generator: Any
    ) -> Any:
        asked = (prompt, target_step, draft_step, gamma, length)
        return _in_time(observer, lambda: invoke(target, asked, generator))[0]

    return decode


def _in_time(observer: Observer, call: Callable[[], Any]) -> tuple[Any, Any]:
    """What a call returns; one that does not come back is refused: the tracer may be to blame."""
    observer.begin((0,))
    try:
        return split_result(call())
    except ImplementationTimeoutError as error:
        refuse("a call", error.message)
    finally:
        observer.end()


def block_scenario(chain: Chain, gamma: int) -> BlockScenario:
    """The first block of a chain."""

    def row(side: Any, prefix: tuple[int, ...]) -> Any:
        return side[len(prefix), chain.context(prefix)]

    return BlockScenario(
        gamma=gamma,
        vocab_size=chain.vocab_size,
        target=lambda prefix: row(chain.target, prefix),
        draft=lambda prefix: row(chain.draft, prefix),
    )


def _trace_loop(
    target: Target, scenario: Scenario, observer: Observer, budget: dict[str, Any]
) -> ExactCheck:
    models = scenario.models or scenario.chain
    steps = step_functions(models, target.framework)
    prompt, length = prompt_of(scenario), traced_length(scenario)
    more = {} if scenario.eos is None else {EOS: scenario.eos}
    generator = traced_generator(_framework(target))

    def run() -> Any:
        asked = (to_framework(prompt, target.framework), *steps, scenario.gamma, length)
        return _in_time(observer, lambda: invoke(target, asked, generator, **more))[0]

    return judge_completions(
        enumerate_law(run, order="best", **budget),
        tabular_pair(models)[0],
        prompt=prompt,
        length=length,
        eos_token_id=scenario.eos,
        tolerance=1e-12 if handed_dtype(target) == "float64" else 1e-6,
    )


def tabular_pair(models: Chain) -> tuple[TabularModel, TabularModel]:
    """Target and draft of a decode scenario, whose rows are the same at every position."""
    shape = (models.vocab_size,) * (models.order + 1)
    target, draft = (side[0].reshape(shape) for side in (models.target, models.draft))
    return TabularModel(target), TabularModel(draft)


def _support(rows: Any) -> int:
    """Largest number of tokens that a row allows."""
    return int((rows > 0).sum(axis=-1).max())


def _framework(target: Target) -> Framework:
    return cast("Framework", str(target.framework))
